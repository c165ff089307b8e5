//===- OperandPrecision.h - Operands in lower precision ---------*- C++ -*-===//
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

/// The dimensions of a factor's tensor. `batch` dimensions are in both factors
/// and the result, `columns` are the dimensions of K in the order of the fold,
/// and `rows` are all others.
struct OperandLayout {
  SmallVector<int64_t> batch, rows, columns;
};

/// Returns the layout of factor `side` (0 or 1) of the fold.
OperandLayout getLayout(FoldOp fold, unsigned side);

/// (R1) The source of the bits of stochastic rounding.
struct RandomSites {
  Value seed, step; ///< i64
  int64_t next = 0; ///< the first unused site
};

/// The precision of an operand, and how the operand is converted to it.
struct OperandPrecision {
  /// The type bf16, f16 or tf32, or a BlockFormatAttr.
  Attribute format;
  SmallVector<int64_t> signs; ///< (Q5) of the transform; empty if none
  bool toBF16 = false; ///< (Q5) whether the transform's result is rounded
  bool hasAmaxOfRows = false;
  /// (Q6) The delayed scale, which also records the operand's amax; null if the
  /// format requires none.
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

/// Rounds a float tensor to bf16, f16 or tf32. The result of rounding to tf32
/// has the element type f32.
Value roundTensor(ImplicitLocOpBuilder &b, Value tensor, Type type);

/// How an operand is viewed as a matrix: the order of its dimensions (batch,
/// rows, columns), and the shape after the dimensions are merged.
struct MatrixView {
  SmallVector<int64_t> order; ///< of the operand's dimensions
  SmallVector<int64_t> sizes; ///< of those dimensions, in that order
  SmallVector<int64_t> shape; ///< of the matrix, whose dimensions are merged
};

/// (Q2) A quantized operand.
struct QuantizedOperand {
  BlockFormatAttr format;
  Value codes, scales;
  Value tensorScale; ///< for scales of two levels, else null
  MatrixView view;
};

/// Quantizes a float tensor to the blocks that `layout` determines. Reports an
/// error at `fold` if that is impossible.
FailureOr<QuantizedOperand> quantizeOperand(ImplicitLocOpBuilder &b,
                                            FoldOp fold, Value operand,
                                            const OperandPrecision &precision,
                                            const OperandLayout &layout,
                                            RandomSites &sites);

/// Returns the values of a quantized operand, in the operand's shape.
Value dequantizeOperand(ImplicitLocOpBuilder &b,
                        const QuantizedOperand &quantized);

/// Rounds a float tensor to a format without blocks and keeps its shape.
/// Reports errors like `quantizeOperand`.
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

/// (Q4) Converts a quantized operand to a factor. The scales become f32 factors
/// of the codes (Q8) or, if `isScaled`, keep their stored type (M5).
BlockFactor createBlockFactor(ImplicitLocOpBuilder &b,
                              const QuantizedOperand &quantized,
                              const OperandLayout &layout, bool isScaled);

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_OPERANDPRECISION_H
