//===- EmitCores.h - Emits plans of many cores as bytes ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_EMITCORES_H
#define REPRO_CODEGEN_CORES_EMITCORES_H

#include "Target/Level.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// Translates a `cores.plan`, and its kernels in the LLVM dialect, to the bytes
/// of a core plan (docs/reference/core-plan.md). Up to `jobs` threads generate
/// code. For the level of a microcontroller, states the bytes of code, and
/// emits an error if the kernels of a core do not fit into its code memory.
FailureOr<std::string> translateToCorePlan(ModuleOp module, const Level &level,
                                           unsigned jobs);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CORES_EMITCORES_H
