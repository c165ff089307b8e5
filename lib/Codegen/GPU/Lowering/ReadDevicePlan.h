//===- ReadDevicePlan.h - The launches of a planned main --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_LOWERING_READDEVICEPLAN_H
#define REPRO_CODEGEN_GPU_LOWERING_READDEVICEPLAN_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// Reads the launches that `repro-expand-device-kernels` left in `main`; `plan`
/// receives them as JSON (docs/architecture.md, "Device code"), `constants`
/// the bytes of the constants that kernels read.
LogicalResult readDevicePlan(ModuleOp module, std::string &plan,
                             std::string &constants);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_GPU_LOWERING_READDEVICEPLAN_H
