//===- ReadPlan.h - Reads the launch plan of a CPU --------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_READPLAN_H
#define REPRO_CODEGEN_CPU_READPLAN_H

#include "Codegen/Schedule/Buffers/PlanReader.h"

namespace mlir::repro {

/// Translates the `launch.plan` of `module` to the form that artifacts store.
/// Kernels must have the attributes that `repro-expand-kernels` sets.
FailureOr<TranslatedPlan> readPlan(ModuleOp module);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_READPLAN_H
