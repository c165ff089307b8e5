//===- ScalarEvaluator.h - Scalar operations of constants -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TRANSFORMS_SCALAREVALUATOR_H
#define REPRO_TRANSFORMS_SCALAREVALUATOR_H

#include "mlir/IR/Operation.h"

namespace mlir::repro {

/// Evaluates a scalar `arith` or `math` operation on constants as (S1) to (S4),
/// (V1) and (I1) define, without the host's float arithmetic. Returns null for
/// functions (S5), square roots, and results of f8E4M3FN, f8E8M0FNU, f6 or f4.
TypedAttr evaluateScalar(Operation *op, ArrayRef<Attribute> operands);

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_SCALAREVALUATOR_H
