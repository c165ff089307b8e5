//===- CanonicalChecks.h - Every check reaches a result -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_CANONICALCHECKS_H
#define REPRO_IDENTITY_CANONICALCHECKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::repro {

/// (E1) Checks that a result of the program or an assertion depends on each
/// operation that can fail: a compiler may leave out what nothing depends on.
LogicalResult verifyChecks(func::FuncOp main);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_CANONICALCHECKS_H
