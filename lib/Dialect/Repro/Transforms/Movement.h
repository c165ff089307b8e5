//===- Movement.h - Elements that are moved ---------------------*- C++ -*-===//
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

/// The tensor whose elements `value` has, as they are or converted to another
/// float type, beside constants of a padding; null where it is computed.
Value getMovedTensor(Value value);

/// What `value` is moved from, from `value` itself to what is computed or an
/// argument.
SmallVector<Value> getMovements(Value value);

/// The last of `getMovements`.
Value getMovedFrom(Value value);

/// `values`, which are those of `from`, moved as `to` is from it: `to` and
/// `from` have to be moved from one tensor, `from` by permutations and reshapes
/// alone. Null where they are not.
Value moveAlike(OpBuilder &builder, Value values, Value from, Value to);

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_MOVEMENT_H
