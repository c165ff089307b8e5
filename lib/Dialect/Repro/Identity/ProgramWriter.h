//===- ProgramWriter.h - The bytes of a canonical program -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_PROGRAMWRITER_H
#define REPRO_IDENTITY_PROGRAMWRITER_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// Writes the bytes that the identity (H2) hashes. Fails with an error if
/// verifyCanonicalProgram does; some bytes may have been written by then.
LogicalResult writeBody(ModuleOp module, raw_ostream &stream);

/// Writes a stored program (docs/verification/identity.md): the body, names,
/// messages and origins. Fails if writeBody does, or if a text is not UTF-8.
LogicalResult writeProgram(ModuleOp module, raw_ostream &stream);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_PROGRAMWRITER_H
