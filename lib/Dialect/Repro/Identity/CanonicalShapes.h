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

/// (A4) The maximum rank of a tensor and number of iterators of an operation.
constexpr int64_t kMaxRank = 24;

/// (A4) Whether a tensor is within the limits on rank and size in bytes. The
/// tensor has a static shape and an element type of (V1).
bool isWithinLimits(RankedTensorType type);

/// (A4) Checks the size of a tensor of `op`. The tensor has a static shape and
/// an element type of (V1).
LogicalResult verifySize(Operation *op, RankedTensorType type);

/// (A4) Checks the total size of all tensors of `main`. Each tensor has been
/// checked by itself before.
LogicalResult verifySizes(func::FuncOp main);

/// Whether the indices at the first and the last iteration can be computed in
/// 64 bits. MLIR's verifier evaluates these indices and aborts on overflow.
bool hasEnds(ArrayRef<AffineMap> maps, ValueRange operands);

/// (A1), (A2) Checks the accesses of the structured operation `op` if its maps,
/// of static shapes, were `maps`.
LogicalResult verifyMaps(Operation *op, ArrayRef<AffineMap> maps);

/// (A1), (A2), (A3), (A4) Checks the shapes and accesses of an operation. Its
/// types have been checked before.
LogicalResult verifyShapes(Operation *op);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_CANONICALSHAPES_H
