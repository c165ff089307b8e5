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

/// (V1) Whether the type is bf16, f16 or f8: a scalar that is stored, and
/// computed with in f32.
bool isStorage(Type type);

/// (V1) Whether the operation computes on scalars of storage types. One that
/// only moves or converts them does not, nor does the step of a fold.
bool computesOnStorage(Operation *op);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_CANONICALPROGRAM_H
