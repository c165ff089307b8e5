//===- CanonicalShapes.h - Sizes and accesses of a program ------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_CANONICALSHAPES_H
#define REPRO_IDENTITY_CANONICALSHAPES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::repro {

/// (A4) Most dimensions of a tensor, and most iterators of an operation.
constexpr int64_t kMaxRank = 24;

/// (A4) Whether a tensor of static shape and with an element type of (V1) has
/// no more dimensions and bytes than a program's tensors may have.
bool isWithinLimits(RankedTensorType type);

/// (A4) Checks the size of a tensor that `op` has, of static shape and with an
/// element type of (V1).
LogicalResult verifySize(Operation *op, RankedTensorType type);

/// (A4) Checks the sizes of all tensors of `main` together; each of them has
/// been checked.
LogicalResult verifySizes(func::FuncOp main);

/// Whether no number on the way to an index of the first and of the last
/// iteration has more than 64 bits. Where one has, MLIR's verifier, which
/// evaluates them, ends the process.
bool hasEnds(ArrayRef<AffineMap> maps, ValueRange operands);

/// (A1), (A2) Checks the accesses that the structured operation `op` would have
/// with `maps` of static shapes.
LogicalResult verifyMaps(Operation *op, ArrayRef<AffineMap> maps);

/// (A1), (A2), (A3), (A4) Checks the shapes and the accesses of an operation
/// whose types have been checked.
LogicalResult verifyShapes(Operation *op);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_CANONICALSHAPES_H
