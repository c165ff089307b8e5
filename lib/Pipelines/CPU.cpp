//===- CPU.cpp - Compiles canonical programs to artifacts -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipelines `cpu`, `cpu-expand` and `cpu-lower`, and the drivers that compile
// or analyze a program with them: convert a canonical program to an artifact
// whose bits do not depend on the CPU level or the number of threads.
//
//===----------------------------------------------------------------------===//

#include "Pipelines/CPU.h"

#include "Codegen/CPU/Analysis/BlockCounts.h"
#include "Codegen/CPU/Analysis/KernelDescriptions.h"
#include "Codegen/CPU/Lowering/EmitObject.h"
#include "Codegen/CPU/Lowering/ReadPlan.h"
#include "Codegen/CPU/Passes.h"
#include "Codegen/Functions/Passes.h"
#include "Dialect/Repro/Transforms/Passes.h"
#include "Pipelines/Pipelines.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/Timing.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::repro;

static ScheduleOptions getCPUSchedule() {
  ScheduleOptions options;
  options.fuseRows = true;
  options.fuseEpilogues = true;
  return options;
}

void mlir::repro::buildCPUExpandPipeline(OpPassManager &manager,
                                         const Level &level) {
  ReproExpandKernelsOptions options;
  options.level = level.description;
  manager.addPass(createReproExpandKernels(options));
}

void mlir::repro::buildCPULowerPipeline(OpPassManager &manager,
                                        const Level &level) {
  manager.addPass(createReproFinalizeKernels());
  OpPassManager &kernels = manager.nest<func::FuncOp>();
  kernels.addPass(createCSEPass());
  kernels.addPass(createReproExpandFunctions());
  kernels.addPass(memref::createExpandStridedMetadataPass());
  kernels.addPass(createLowerAffinePass());
  ReproExpandArithmeticOptions arithmetic;
  arithmetic.hasF16 = level.hasF16;
  manager.addPass(createReproExpandArithmetic(arithmetic));
  if (!level.hasFma)
    manager.addPass(createReproExpandFma());
  OpPassManager &lowered = manager.nest<func::FuncOp>();
  lowered.addPass(createSCFToControlFlowPass());
  lowered.addPass(createReproCanonicalize());
  lowered.addPass(createCSEPass());
  ConvertVectorToLLVMPassOptions vector;
  vector.reassociateFPReductions = false;
  // These passes run on single functions instead of the module, so that several
  // threads can share the work.
  lowered.addPass(createConvertVectorToLLVMPass(vector));
  lowered.addPass(createConvertMathToLLVMPass());
  lowered.addPass(createArithToLLVMConversionPass());
  lowered.addPass(createConvertIndexToLLVMPass());
  manager.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions function;
  function.useBarePtrCallConv = true;
  manager.addPass(createConvertFuncToLLVMPass(function));
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addNestedPass<LLVM::LLVMFuncOp>(createUBToLLVMConversionPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  manager.addNestedPass<LLVM::LLVMFuncOp>(createCSEPass());
  manager.addPass(createReproVerifyLowered());
}

/// Appends the passes of the pipelines `schedule` and `cpu-expand` to `expand`,
/// and those of `cpu-lower` to `lower`. `expand` and `lower` may be the same
/// pass manager.
static void buildCPUPipeline(OpPassManager &expand, OpPassManager &lower,
                             const Level &level) {
  buildSchedulePipeline(expand, getCPUSchedule());
  buildCPUExpandPipeline(expand, level);
  buildCPULowerPipeline(lower, level);
}

static std::vector<std::string> getNames(const ::repro_runtime::Plan &plan) {
  std::vector<std::string> kernels;
  for (const ::repro_runtime::Kernel &kernel : plan.kernels)
    kernels.push_back(kernel.name);
  return kernels;
}

FailureOr<std::string> mlir::repro::translateToArtifact(ModuleOp module,
                                                        const Level &level,
                                                        unsigned jobs) {
  FailureOr<TranslatedPlan> translated = readPlan(module);
  if (failed(translated))
    return failure();
  ::repro_runtime::Artifact artifact;
  artifact.machine = level.machine;
  artifact.level = level.name;
  artifact.plan = std::move(translated->plan);
  artifact.constants = {translated->constants.data(),
                        translated->constants.size()};
  FailureOr<SmallVector<std::string>> objects =
      emitObjects(module, getNames(artifact.plan), level, jobs);
  if (failed(objects))
    return failure();
  for (const std::string &object : *objects)
    artifact.objects.push_back({object.data(), object.size()});
  return ::repro_runtime::writeArtifact(artifact);
}

LogicalResult mlir::repro::runAndLower(
    ModuleOp module, bool timing,
    llvm::function_ref<void(OpPassManager &, OpPassManager &)> build) {
  DefaultTimingManager timer;
  timer.setEnabled(timing);
  TimingScope scope = timer.getRootScope();
  StringRef anchor = ModuleOp::getOperationName();
  PassManager first(module.getContext(), anchor),
      lower(module.getContext(), anchor);
  first.enableTiming(scope);
  lower.enableTiming(scope);
  build(first, lower);
  // Verify lowered IR only at the end: it has many operations, so verifying it
  // after each pass, as repro-opt does, would be slow.
  lower.enableVerifier(false);
  return success(succeeded(first.run(module)) && succeeded(lower.run(module)) &&
                 succeeded(verify(module)));
}

FailureOr<std::string> mlir::repro::compileForCPU(ModuleOp canonical,
                                                  const Level &level,
                                                  unsigned jobs, bool timing) {
  if (level.isMicrocontroller)
    return canonical.emitError("expected one of the CPU levels ")
           << listLevels() << ", as microcontrollers run no artifacts, got "
           << level.name;
  OwningOpRef<ModuleOp> module = canonical.clone();
  if (failed(runAndLower(*module, timing,
                         [&](OpPassManager &expand, OpPassManager &lower) {
                           buildCPUPipeline(expand, lower, level);
                         })))
    return failure();
  return translateToArtifact(*module, level, jobs);
}

FailureOr<StepProgram> mlir::repro::compileForMicrocontroller(
    ModuleOp canonical, const Level &level, StringRef name,
    ArrayRef<StringRef> initial, bool timing) {
  OwningOpRef<ModuleOp> module = canonical.clone();
  if (failed(runAndLower(*module, timing,
                         [&](OpPassManager &expand, OpPassManager &lower) {
                           buildCPUPipeline(expand, lower, level);
                         })))
    return failure();
  FailureOr<TranslatedPlan> translated = readPlan(*module);
  if (failed(translated))
    return failure();
  FailureOr<StepObject> step =
      emitStep(*module, *translated, name, initial, level);
  if (failed(step))
    return failure();
  return StepProgram{std::move(*step),
                     ::repro_runtime::writePlan(translated->plan)};
}

FailureOr<CPUAnalysis> mlir::repro::analyzeForCPU(ModuleOp canonical,
                                                  const Level &level,
                                                  unsigned jobs) {
  OwningOpRef<ModuleOp> module = canonical.clone();
  StringRef anchor = ModuleOp::getOperationName();
  PassManager schedule(module->getContext(), anchor),
      lower(module->getContext(), anchor);
  buildSchedulePipeline(schedule, getCPUSchedule());
  buildCPUExpandPipeline(lower, level);
  buildCPULowerPipeline(lower, level);
  CPUAnalysis analysis;
  if (failed(schedule.run(*module)))
    return failure();
  analysis.kernels = describeKernels(*module);
  lower.enableVerifier(false);
  if (failed(lower.run(*module)) || failed(verify(*module)))
    return failure();
  FailureOr<TranslatedPlan> translated = readPlan(*module);
  if (failed(translated))
    return failure();
  analysis.plan = ::repro_runtime::writePlan(translated->plan);
  llvm::StringMap<KernelWork> work;
  for (const ::repro_runtime::Kernel &kernel : translated->plan.kernels)
    work[kernel.name] = {kernel.items, kernel.scratchBytes};
  FailureOr<SmallVector<std::string>> texts = emitAssembly(
      *module, getNames(translated->plan), level, jobs,
      [&](llvm::Module &code) { return nameBlocksByCount(code, work, level); });
  if (failed(texts))
    return failure();
  analysis.assembly = llvm::join(*texts, "\n");
  return analysis;
}

namespace {
struct CPUOptions : public PassPipelineOptions<CPUOptions> {
  Option<std::string> level{*this, "level",
                            llvm::cl::desc("the CPU level, such as x86-64-v3, "
                                           "or the path of a machine's file"),
                            llvm::cl::init("x86-64-v3")};
};
} // namespace

/// Registers a pipeline with the option `level`.
template <typename Build>
static void registerWithLevel(StringRef name, StringRef description,
                              Build build) {
  PassPipelineRegistration<CPUOptions>(
      name, description,
      [build](OpPassManager &manager, const CPUOptions &options) {
        std::string error;
        FailureOr<Level> level = getLevel(options.level, error);
        if (failed(level))
          llvm::report_fatal_error(StringRef(error),
                                   /*gen_crash_diag=*/false);
        build(manager, *level);
      });
}

void mlir::repro::registerCPUPipelines() {
  registerWithLevel("cpu-expand", "kernel functions to loops over vectors",
                    buildCPUExpandPipeline);
  registerWithLevel("cpu-lower",
                    "expanded kernel functions to the LLVM dialect",
                    buildCPULowerPipeline);
  registerWithLevel("cpu",
                    "canonical programs to a plan and kernels in the LLVM "
                    "dialect",
                    [](OpPassManager &manager, const Level &level) {
                      buildCPUPipeline(manager, manager, level);
                    });
}
