//===- AffineBounds.h - Extents of loops, bounds of accesses ----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_IR_AFFINEBOUNDS_H
#define REPRO_DIALECT_IR_AFFINEBOUNDS_H

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Operation.h"

namespace mlir::repro {

/// An indexing map and the shape of the operand that it indexes.
struct IndexedShape {
  AffineMap map;
  ArrayRef<int64_t> shape;
};

/// (A1), (A2) Checks the accesses of a structured operation on `operands`: the
/// maps must define the extent of each loop consistently, and each access must
/// be in bounds. Accesses that depend on a dynamic extent are not checked.
LogicalResult verifyAccesses(Operation *op, ArrayRef<IndexedShape> operands);

/// (A1), (A2) Whether interval arithmetic proves that the accesses of an
/// operand of static `shape` by `map`, in loops of static `extents`, are in
/// bounds.
bool mayAccess(AffineMap map, ArrayRef<int64_t> extents,
               ArrayRef<int64_t> shape);

/// Returns the least and the greatest value of `expr` in loops of static,
/// positive `extents` by interval arithmetic; std::nullopt if it cannot tell.
std::optional<std::pair<int64_t, int64_t>>
getExprBounds(AffineExpr expr, ArrayRef<int64_t> extents);

/// Whether interval arithmetic proves that the index or integer `value` is in
/// [0, `size`) in every iteration. `value` is in the body of `loops`, a
/// `linalg.generic` or `repro.fold` with static extents.
bool isWithin(Value value, Operation *loops, int64_t size);

} // namespace mlir::repro

#endif // REPRO_DIALECT_IR_AFFINEBOUNDS_H
