//===- ReadDevicePlan.h - Reads the launch plan of a GPU --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_LOWERING_READDEVICEPLAN_H
#define REPRO_CODEGEN_GPU_LOWERING_READDEVICEPLAN_H

#include "Codegen/Schedule/Buffers/PlanReader.h"

namespace mlir::repro {

/// Translates the `launch.plan` of `module` to the form that artifacts store,
/// after `repro-expand-device-kernels`.
FailureOr<TranslatedPlan> readDevicePlan(ModuleOp module);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_GPU_LOWERING_READDEVICEPLAN_H
