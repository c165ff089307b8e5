//===- BlockScales.h - Arithmetic of block scales in bodies -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_BLOCKSCALES_H
#define REPRO_CODEGEN_SCHEDULE_TENSORS_BLOCKSCALES_H

#include "Codegen/Schedule/Tensors/ElementArithmetic.h"

namespace mlir::repro {

/// (Q2) The scale of a block and the factor that quantizes its elements.
struct BlockScale {
  Value code;    ///< i8 for a byte format, otherwise the scale's own type
  Scalar factor; ///< multiplies the elements, or divides them
                 ///< (`dividesByFactor`)
};

/// Whether quantization divides elements by BlockScale::factor, instead of
/// multiplying them by it.
bool dividesByFactor(BlockFormatAttr format);

/// (Q2) Returns the scale of a block. `amax` is the largest magnitude in the
/// block; it may be a NaN but is not negative. `tensor` is the operand `tensor`
/// of the operation, or empty if it has none.
BlockScale computeScale(const FloatWords &words, Scalar amax, Scalar tensor,
                        BlockFormatAttr format);

/// Returns the f32 value of `scale`, the code of a scale of element type
/// `type`.
Scalar decodeScale(const FloatWords &words, Value scale, Type type);

/// (Q2) Returns the f32 value of `code` in a block with the scale `scale`.
Scalar computeValue(const FloatWords &words, Value code, Value scale,
                    Scalar tensor, BlockFormatAttr format);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_BLOCKSCALES_H
