//===- CPU.h - From a canonical program to an artifact ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_PIPELINES_CPU_H
#define REPRO_PIPELINES_CPU_H

#include "Target/Level.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::repro {

/// The bodies of kernel functions become loops over vectors.
void buildCPUExpandPipeline(OpPassManager &manager, const Level &level);

/// Expanded kernel functions become the LLVM dialect; the plan stays.
void buildCPULowerPipeline(OpPassManager &manager, const Level &level);

/// The artifact of what the pipeline `cpu` leaves: a plan and its kernels in
/// the LLVM dialect. Code is made in up to `jobs` threads.
FailureOr<std::string> translateToArtifact(ModuleOp module, const Level &level,
                                           unsigned jobs);

/// Compiles a canonical program; the module stays as it is. Errors are
/// diagnostics. With `timing` the time of each pass is printed to stderr.
FailureOr<std::string> compileForCPU(ModuleOp module, const Level &level,
                                     unsigned jobs, bool timing = false);

/// What readers of compiled code want to know of it.
struct CPUAnalysis {
  std::string plan;     ///< its bytes (docs/plan.md)
  std::string operands; ///< as of `describeOperands`
  std::string assembly; ///< of the kernels; blocks are named by their counts
};

/// Describes the code that `compileForCPU` makes; errors are diagnostics.
FailureOr<CPUAnalysis> analyzeForCPU(ModuleOp module, const Level &level,
                                     unsigned jobs);

/// Registers `cpu`, `cpu-expand` and `cpu-lower`.
void registerCPUPipelines();

} // namespace mlir::repro

#endif // REPRO_PIPELINES_CPU_H
