//===- OperandPrecision.h - Tensors in lower precision ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TRANSFORMS_OPERANDPRECISION_H
#define REPRO_TRANSFORMS_OPERANDPRECISION_H

#include "Dialect/Repro/Transforms/DelayedScales.h"
#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {

/// The dimensions of a factor's tensor: those that both factors and the result
/// have, those of K in the order of the fold, and the others.
struct OperandLayout {
  SmallVector<int64_t> batch, rows, columns;
};

/// The layout of the operand that is factor `side` (0 or 1).
OperandLayout getLayout(FoldOp fold, unsigned side);

/// (R1) Where stochastic rounding takes its bits.
struct RandomSites {
  Value seed, step; ///< i64
  int64_t next = 0; ///< the first site that is free
};

/// How an operand becomes one of lower precision.
struct OperandPrecision {
  /// bf16, f16, tf32 or a BlockFormatAttr.
  Attribute format;
  SmallVector<int64_t> signs; ///< (Q5) of the transform, empty for none
  bool toBF16 = false;        ///< (Q5) whether what it gives is rounded
  bool hasAmaxOfRows = false;
  /// (Q6) The scale of a format under one that is given; it learns the amax.
  DelayedScale *delayed = nullptr;

  BlockFormatAttr getBlockFormat() const {
    return dyn_cast_if_present<BlockFormatAttr>(format);
  }
  bool isStochastic() const {
    BlockFormatAttr blocks = getBlockFormat();
    return blocks &&
           blocks.getRounding().getDirection() == RoundingDirection::sr;
  }
};

/// A float tensor rounded to `type`: one of bf16 or f16, or of f32 for tf32.
Value roundTensor(ImplicitLocOpBuilder &b, Value tensor, Type type);

/// How the dimensions of an operand became those of a matrix: rows and
/// columns, the batch before them.
struct MatrixView {
  SmallVector<int64_t> order; ///< of the operand's dimensions
  SmallVector<int64_t> sizes; ///< of the operand's dimensions in that order
  SmallVector<int64_t> shape; ///< of the matrix, dimensions being joined
};

/// (Q2) An operand in blocks.
struct QuantizedOperand {
  BlockFormatAttr format;
  Value codes, scales;
  Value tensorScale; ///< of scales of two levels, else null
  MatrixView view;
};

/// A float tensor in blocks. `layout` says what the blocks are of. An error of
/// `fold` where they cannot be.
FailureOr<QuantizedOperand> quantizeOperand(ImplicitLocOpBuilder &b,
                                            FoldOp fold, Value operand,
                                            const OperandPrecision &precision,
                                            const OperandLayout &layout,
                                            RandomSites &sites);

/// The values of an operand in blocks, of the operand's shape.
Value dequantizeOperand(ImplicitLocOpBuilder &b,
                        const QuantizedOperand &quantized);

/// The values of a float tensor in lower precision that has no blocks, of its
/// shape, as `quantizeOperand`.
FailureOr<Value> roundOperand(ImplicitLocOpBuilder &b, FoldOp fold,
                              Value operand, const OperandPrecision &precision,
                              const OperandLayout &layout);

/// (Q4) A factor of repro.block_contraction.
struct BlockFactor {
  Value codes;  ///< [batch.., rows, K]
  Value scales; ///< [batch.., rows / scaleRows, K / block], rounded up
  int64_t scaleRows;
  int64_t block;
};

/// (Q4) An operand in blocks as a factor, with the scales by which its codes
/// are multiplied; (M5) with those that it has itself, where it `isScaled`.
BlockFactor createBlockFactor(ImplicitLocOpBuilder &b,
                              const QuantizedOperand &quantized,
                              const OperandLayout &layout, bool isScaled);

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_OPERANDPRECISION_H
