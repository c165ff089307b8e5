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

/// Returns an even cut of an argument along a dimension. If values computed
/// from the argument are reshaped to heads, the cut keeps heads whole. If the
/// argument stacks several tensors, the cut divides each in the same way.
Cut getCutAlong(Value argument, int64_t dim, unsigned ranks);

/// Returns the first cut of an argument that divides a contraction of at least
/// `least` products; std::nullopt if there is none.
std::optional<Cut> chooseCut(Value argument, unsigned ranks, int64_t least);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_PARTITION_ARGUMENTCUTS_H
