//===- Recomputation.h - What gradients compute again -*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_DIFFERENTIATION_RECOMPUTATION_H
#define REPRO_DIALECT_REPRO_DIFFERENTIATION_RECOMPUTATION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::repro {

/// The operations whose location has a name, or a file and line, that one of
/// the glob patterns describes. Fails after an error for a pattern that is
/// none, or describes no operation.
FailureOr<SetVector<Operation *>> findNamed(func::FuncOp main,
                                            ArrayRef<std::string> patterns);

/// (J5) Operations between `last` and the end of its block do not read what
/// `named`, which come before, have computed: they read equal operations,
/// cloned before the first of them that does. What those read of others goes
/// through barriers (V5).
void computeAgain(const SetVector<Operation *> &named, Operation *last);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_DIFFERENTIATION_RECOMPUTATION_H
