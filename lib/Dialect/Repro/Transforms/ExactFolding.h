//===- ExactFolding.h - Folding that keeps every bit ------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_TRANSFORMS_EXACTFOLDING_H
#define REPRO_DIALECT_REPRO_TRANSFORMS_EXACTFOLDING_H

#include "mlir/IR/PatternMatch.h"

namespace mlir::repro {

/// Whether the operations of `dialect` compute numbers, so that upstream's
/// patterns and folders are not to be trusted with them.
bool isArithmetic(Dialect *dialect);

/// (V3) constants, the identities that keep every bit, and the folders of
/// operations that move data or compute integers. For a driver that does not
/// fold by itself.
void populateExactFolding(RewritePatternSet &patterns);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_TRANSFORMS_EXACTFOLDING_H
