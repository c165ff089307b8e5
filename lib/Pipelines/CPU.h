//===- CPU.h - Compiles canonical programs to artifacts ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_PIPELINES_CPU_H
#define REPRO_PIPELINES_CPU_H

#include "Codegen/CPU/Lowering/EmitStep.h"
#include "Target/Level.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::repro {

/// Expands the bodies of kernel functions to loops over vectors.
void buildCPUExpandPipeline(OpPassManager &manager, const Level &level);

/// Lowers expanded kernel functions to the LLVM dialect and keeps the plan.
void buildCPULowerPipeline(OpPassManager &manager, const Level &level);

/// Translates the result of the pipeline `cpu` (a plan and kernels in the LLVM
/// dialect) to an artifact. Up to `jobs` threads generate code.
FailureOr<std::string> translateToArtifact(ModuleOp module, const Level &level,
                                           unsigned jobs);

/// Runs the passes that `build` adds to the first pass manager, and then those
/// of the second one, which lower kernels and are verified only at their end.
/// With `timing`, the time of each pass is printed to stderr.
LogicalResult
runAndLower(ModuleOp module, bool timing,
            llvm::function_ref<void(OpPassManager &, OpPassManager &)> build);

/// Compiles a copy of a canonical program to an artifact. Errors are emitted as
/// diagnostics. With `timing`, the time of each pass is printed to stderr.
FailureOr<std::string> compileForCPU(ModuleOp module, const Level &level,
                                     unsigned jobs, bool timing = false);

/// The object of a program for a microcontroller, and its plan as bytes
/// (docs/reference/plan.md).
struct StepProgram {
  StepObject step;
  std::string plan;
};

/// Compiles a copy of a canonical program for a microcontroller (see emitStep).
/// With `timing`, the time of each pass is printed to stderr.
FailureOr<StepProgram>
compileForMicrocontroller(ModuleOp module, const Level &level, StringRef name,
                          ArrayRef<StringRef> initial, bool timing);

/// A description of compiled code, for tools that predict its speed.
struct CPUAnalysis {
  std::string plan;     ///< as bytes (docs/reference/plan.md)
  std::string kernels;  ///< the text that `describeKernels` returns
  std::string assembly; ///< of the kernels, with the names of blocks
};

/// Describes the code that `compileForCPU` generates. Errors are emitted as
/// diagnostics.
FailureOr<CPUAnalysis> analyzeForCPU(ModuleOp module, const Level &level,
                                     unsigned jobs);

/// Registers `cpu`, `cpu-expand` and `cpu-lower`.
void registerCPUPipelines();

} // namespace mlir::repro

#endif // REPRO_PIPELINES_CPU_H
