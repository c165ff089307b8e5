//===- ArgumentCuts.h - Which arguments are cut -*- C++ -*-===//
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

/// The cut of an argument along a dimension: even, but in whole heads where
/// what is computed of it is reshaped to heads, and in each of the tensors
/// alike where it is the stack of several.
Cut getCutAlong(Value argument, int64_t dim, unsigned ranks);

/// The cut of an argument that is worth it, none where there is no such.
std::optional<Cut> chooseCut(Value argument, unsigned ranks, int64_t least);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_PARTITION_ARGUMENTCUTS_H
