//===- BlockScales.h - Scales of blocks in bodies ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_BLOCKSCALES_H
#define REPRO_CODEGEN_SCHEDULE_TENSORS_BLOCKSCALES_H

#include "Codegen/Schedule/Tensors/ElementArithmetic.h"

namespace mlir::repro {

/// (Q2) What a block is quantized with.
struct BlockScale {
  Value code;    ///< i8 for a byte format, else of the scale's own type
  Scalar factor; ///< what elements are multiplied by, or divided by
};

/// Whether elements are divided by the factor.
bool dividesByFactor(BlockFormatAttr format);

/// (Q2) The scale of a block with the amax, which is not negative or NaN.
/// `tensor` is the operand of the operation, empty where it has none.
BlockScale computeScale(const FloatWords &words, Scalar amax, Scalar tensor,
                        BlockFormatAttr format);

/// The f32 that the code of a scale of the type stands for.
Scalar decodeScale(const FloatWords &words, Value scale, Type type);

/// (Q2) The value of a code under the scale.
Scalar computeValue(const FloatWords &words, Value code, Value scale,
                    Scalar tensor, BlockFormatAttr format);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_BLOCKSCALES_H
