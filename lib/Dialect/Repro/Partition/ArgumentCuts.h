//===- ArgumentCuts.h - Choice of the arguments that are cut ----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_PARTITION_ARGUMENTCUTS_H
#define REPRO_DIALECT_REPRO_PARTITION_ARGUMENTCUTS_H

#include "Division.h"

namespace mlir::repro {

/// Whether `op` is a contraction of at least `least` products.
bool isWorthDividing(Operation *op, int64_t least);

/// Returns the cut of an argument along a dimension. It is even, except that it
/// keeps whole heads if results are reshaped to heads, and divides each tensor
/// in the same way if the argument stacks several.
Cut getCutAlong(Value argument, int64_t dim, unsigned ranks);

/// Returns the first cut of an argument that is worth it; std::nullopt if no
/// cut is.
std::optional<Cut> chooseCut(Value argument, unsigned ranks, int64_t least);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_PARTITION_ARGUMENTCUTS_H
