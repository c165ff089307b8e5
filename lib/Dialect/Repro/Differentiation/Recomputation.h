//===- Recomputation.h - Recomputation in the gradient pass -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIALECT_REPRO_DIFFERENTIATION_RECOMPUTATION_H
#define REPRO_DIALECT_REPRO_DIFFERENTIATION_RECOMPUTATION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::repro {

/// Returns the operations with a location whose name, or file and line, matches
/// one of the glob patterns. Fails after an error if a pattern is invalid or
/// matches no operation.
FailureOr<SetVector<Operation *>> findNamed(func::FuncOp main,
                                            ArrayRef<std::string> patterns);

/// (J5) Makes the operations after `last` in its block read clones of the
/// operations `named`, all of which precede `last`. A clone is inserted before
/// its first reader and reads other values through barriers (V5).
void computeAgain(const SetVector<Operation *> &named, Operation *last);

} // namespace mlir::repro

#endif // REPRO_DIALECT_REPRO_DIFFERENTIATION_RECOMPUTATION_H
