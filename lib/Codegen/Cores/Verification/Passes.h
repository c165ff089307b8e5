//===- Passes.h - Verification of mappings ---------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_VERIFICATION_PASSES_H
#define REPRO_CODEGEN_CORES_VERIFICATION_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::repro {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Codegen/Cores/Verification/Passes.h.inc"

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CORES_VERIFICATION_PASSES_H
