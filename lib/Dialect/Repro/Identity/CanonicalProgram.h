//===- CanonicalProgram.h - What a canonical program may be *- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_CANONICALPROGRAM_H
#define REPRO_IDENTITY_CANONICALPROGRAM_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// Checks the contract "canonical program" of docs/architecture.md; a violation
/// is an error at its location.
LogicalResult verifyCanonicalProgram(ModuleOp module);

/// Whether the elements of a tensor operand take part in the operation's
/// results: not those of an initial operand that is only a destination, nor of
/// an input that only gives its shape.
bool readsElements(OpOperand &operand);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_CANONICALPROGRAM_H
