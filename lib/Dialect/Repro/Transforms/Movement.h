//===- Movement.h - Operations that move elements ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TRANSFORMS_MOVEMENT_H
#define REPRO_TRANSFORMS_MOVEMENT_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace mlir::repro {

/// Returns the tensor from which an operation moves the elements of `value`,
/// unchanged or converted to another float type, possibly with constant
/// padding; null if `value` is computed.
Value getMovedTensor(Value value);

/// Returns `value`, then the tensor from which it is moved (`getMovedTensor`),
/// then the tensor from which that one is moved, and so on, up to a computed
/// value or an argument.
SmallVector<Value> getMovements(Value value);

/// Returns the last value that `getMovements` returns.
Value getMovedFrom(Value value);

/// Moves `values`, which correspond to the elements of `from`, so that they
/// correspond to those of `to`. Returns null unless `from` and `to` are moved
/// from the same tensor, `from` by permutations and reshapes only.
Value moveAlike(OpBuilder &builder, Value values, Value from, Value to);

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_MOVEMENT_H
