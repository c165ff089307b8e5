//===- ReadDevicePlan.h - The launches on a GPU -----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_LOWERING_READDEVICEPLAN_H
#define REPRO_CODEGEN_GPU_LOWERING_READDEVICEPLAN_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// Translates the `launch.plan` that `repro-expand-device-kernels` leaves;
/// `plan` receives it as JSON (docs/bundle.md), `constants` the bytes of the
/// constants that kernels read.
LogicalResult readDevicePlan(ModuleOp module, std::string &plan,
                             std::string &constants);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_GPU_LOWERING_READDEVICEPLAN_H
