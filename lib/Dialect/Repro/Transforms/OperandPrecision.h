//===- OperandPrecision.h - Tensors in lower precision ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TRANSFORMS_OPERANDPRECISION_H
#define REPRO_TRANSFORMS_OPERANDPRECISION_H

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

/// The values of a float tensor in lower precision, of its shape. `layout` says
/// what blocks and transforms are of. An error of `fold` where they cannot be.
FailureOr<Value> createOperand(ImplicitLocOpBuilder &b, FoldOp fold,
                               Value operand, const OperandPrecision &precision,
                               const OperandLayout &layout, RandomSites &sites);

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_OPERANDPRECISION_H
