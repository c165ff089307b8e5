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

/// Returns the cut of an argument along a dimension. The cut is even, but it
/// keeps heads whole if results are reshaped to heads, and divides each tensor
/// alike if the argument stacks several tensors.
Cut getCutAlong(Value argument, int64_t dim, unsigned ranks);

/// Returns the first cut of an argument that divides a contraction of at least
/// `least` products; std::nullopt if there is none.
std::optional<Cut> chooseCut(Value argument, unsigned ranks, int64_t least);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_PARTITION_ARGUMENTCUTS_H
