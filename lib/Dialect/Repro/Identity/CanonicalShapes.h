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

/// (A4) The maximum rank of a tensor, and the maximum number of iterators of an
/// operation.
constexpr int64_t kMaxRank = 24;

/// (A4) Whether the rank and the size in bytes of a tensor are within the
/// limits. The tensor must have a static shape and an element type of (V1).
bool isWithinLimits(RankedTensorType type);

/// (A4) Checks the size of a tensor of `op`. The tensor must have a static
/// shape and an element type of (V1).
LogicalResult verifySize(Operation *op, RankedTensorType type);

/// (A4) Checks the total size of all tensors of `main`. `verifySize` must have
/// accepted each tensor.
LogicalResult verifySizes(func::FuncOp main);

/// (A2) Whether 64-bit arithmetic can compute the indices at the first and the
/// last iteration, and these indices plus 1. MLIR's verifier evaluates the
/// indices and aborts on overflow, but adds 1 without a check.
bool hasEnds(ArrayRef<AffineMap> maps, ValueRange operands);

/// (A1), (A2) Checks the accesses that the structured operation `op` would have
/// with `maps` instead of its own maps. Shapes must be static.
LogicalResult verifyMaps(Operation *op, ArrayRef<AffineMap> maps);

/// (A1), (A2), (A3), (A4) Checks the shapes and accesses of an operation whose
/// types have been checked.
LogicalResult verifyShapes(Operation *op);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_CANONICALSHAPES_H
