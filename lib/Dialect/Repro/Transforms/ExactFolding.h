//===- ExactFolding.h - Folding that keeps every bit ------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_TRANSFORMS_EXACTFOLDING_H
#define REPRO_DIALECT_REPRO_TRANSFORMS_EXACTFOLDING_H

#include "mlir/IR/PatternMatch.h"

#include "llvm/ADT/ArrayRef.h"

namespace mlir::repro {

/// Returns the dialects whose canonicalization patterns and folders are
/// trusted, because these only move data, change control flow and compute
/// indices.
ArrayRef<StringRef> getTrustedDialects();

/// (V3) Adds patterns that fold constants, apply the identities that keep every
/// bit, and fold operations that move data or compute integers. The driver must
/// not fold by itself.
void populateExactFolding(RewritePatternSet &patterns);

/// Whether an empty slice starts at the end of a dimension, an offset that MLIR
/// regards as out of bounds.
bool isEmptyAtEnd(ArrayRef<int64_t> shape, ArrayRef<OpFoldResult> offsets,
                  ArrayRef<OpFoldResult> sizes);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_TRANSFORMS_EXACTFOLDING_H
