//===- ProgramIdentity.h - The hash of a canonical program (H2) -*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_PROGRAMIDENTITY_H
#define REPRO_IDENTITY_PROGRAMIDENTITY_H

#include "Dialect/Repro/Identity/ProgramWriter.h"

#include <array>

namespace mlir::repro {

using ProgramHash = std::array<uint8_t, 32>;

/// (H2) Returns the BLAKE3 hash of the bytes that writeBody writes
/// (docs/verification/identity.md). Fails with an error if
/// verifyCanonicalProgram does.
FailureOr<ProgramHash> hashProgram(ModuleOp module);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_PROGRAMIDENTITY_H
