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

/// Which bytes the identity hashes. Receipts of version 1 have the first one.
enum class IdentityVersion { first = 1, current = 2 };

/// Writes what the identity (H2) hashes. Fails with an error where
/// verifyCanonicalProgram does; some bytes may have been written then.
LogicalResult writeBody(ModuleOp module, raw_ostream &stream,
                        IdentityVersion version);

/// Writes a program as it is stored (docs/identity.md): the body, names,
/// messages and origins. Fails as writeBody does, and for texts that are not
/// UTF-8.
LogicalResult writeProgram(ModuleOp module, raw_ostream &stream);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_PROGRAMWRITER_H
