//===- Cores.cpp - Maps canonical programs onto many cores ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipelines `cores-map` and `cores`, and the driver that compiles a program
// with them: map a canonical program onto a machine of many cores with small
// memories, without changing a bit of a result.
//
//===----------------------------------------------------------------------===//

#include "Pipelines/Cores.h"

#include "Codegen/Cores/Lowering/EmitCores.h"
#include "Codegen/Cores/Lowering/Passes.h"
#include "Codegen/Cores/Mapping/Description.h"
#include "Codegen/Cores/Mapping/Passes.h"
#include "Codegen/Cores/Verification/Passes.h"
#include "Pipelines/CPU.h"
#include "Pipelines/Pipelines.h"
#include "Target/ManyCore.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace mlir::repro;

void mlir::repro::buildCoresPlacePipeline(OpPassManager &manager,
                                          StringRef machine,
                                          const Level &level) {
  // A fused kernel has no tiles: its operations share blocks of rows, or
  // registers.
  ScheduleOptions options;
  std::string error;
  // Passes report the error of a machine that cannot be read.
  if (FailureOr<ManyCore> description = getManyCore(machine, error);
      succeeded(description))
    options.hasByteArrays = description->matrixOperandBits == 8 &&
                            description->getMostMatrixProducts() > 0;
  buildSchedulePipeline(manager, options);
  manager.addPass(createReproMapSplit());
  ReproMapMatrixOptions matrix;
  matrix.machine = machine.str();
  manager.addPass(createReproMapMatrix(matrix));
  ReproMapPartitionOptions partition;
  partition.machine = machine.str();
  manager.addPass(createReproMapPartition(partition));
  ReproMapTileOptions tile;
  tile.machine = machine.str();
  tile.level = level.description;
  manager.addPass(createReproMapTile(tile));
  ReproMapPlaceOptions place;
  place.machine = machine.str();
  manager.addPass(createReproMapPlace(place));
}

void mlir::repro::buildCoresMapPipeline(OpPassManager &manager,
                                        StringRef machine, const Level &level) {
  buildCoresPlacePipeline(manager, machine, level);
  ReproMapScheduleOptions schedule;
  schedule.machine = machine.str();
  schedule.level = level.description;
  manager.addPass(createReproMapSchedule(schedule));
  manager.addPass(createReproVerifyCores());
  manager.addPass(createReproVerifyCoreMapping());
}

/// Converts the kernels of a mapped program to the LLVM dialect.
static void buildLowerPipeline(OpPassManager &manager, const Level &level) {
  ReproExpandMatricesOptions matrices;
  matrices.level = level.description;
  manager.addPass(createReproExpandMatrices(matrices));
  buildCPUExpandPipeline(manager, level);
  buildCPULowerPipeline(manager, level);
}

FailureOr<std::string> mlir::repro::compileForCores(ModuleOp canonical,
                                                    StringRef machine,
                                                    const Level &level,
                                                    unsigned jobs) {
  OwningOpRef<ModuleOp> module = canonical.clone();
  StringRef anchor = ModuleOp::getOperationName();
  PassManager map(module->getContext(), anchor),
      lower(module->getContext(), anchor);
  buildCoresMapPipeline(map, machine, level);
  buildLowerPipeline(lower, level);
  // Verify lowered IR only at the end, since it has many operations.
  lower.enableVerifier(false);
  if (failed(map.run(*module)) || failed(lower.run(*module)) ||
      failed(verify(*module)))
    return failure();
  return translateToCorePlan(*module, level, jobs);
}

FailureOr<std::string> mlir::repro::describeForCores(ModuleOp canonical,
                                                     StringRef machine,
                                                     const Level &level) {
  OwningOpRef<ModuleOp> module = canonical.clone();
  std::string error;
  FailureOr<ManyCore> description = getManyCore(machine, error);
  if (failed(description))
    return module->emitError(error);
  PassManager manager(module->getContext(), ModuleOp::getOperationName());
  buildCoresPlacePipeline(manager, machine, level);
  if (failed(manager.run(*module)))
    return failure();
  return cores::describeMapping(*module->getOps<launch::PlanOp>().begin(),
                                *description, level.description);
}

namespace {
struct CoresOptions : public PassPipelineOptions<CoresOptions> {
  Option<std::string> machine{
      *this, "machine",
      llvm::cl::desc("the machine of many cores, or the path of its file"),
      llvm::cl::init("tiny-2x2")};
  Option<std::string> level{*this, "level",
                            llvm::cl::desc("the CPU level of the kernels' "
                                           "code, or the path of a "
                                           "machine's file"),
                            llvm::cl::init("x86-64-v3")};
};
} // namespace

/// Registers a pipeline with the options `machine` and `level`.
template <typename Build>
static void registerWithMachine(StringRef name, StringRef description,
                                Build build) {
  PassPipelineRegistration<CoresOptions>(
      name, description,
      [build](OpPassManager &manager, const CoresOptions &options) {
        std::string error;
        FailureOr<Level> level = getLevel(options.level, error);
        if (failed(level))
          llvm::report_fatal_error(StringRef(error),
                                   /*gen_crash_diag=*/false);
        build(manager, options.machine, *level);
      });
}

void mlir::repro::registerCoresPipelines() {
  registerWithMachine("cores-map",
                      "canonical programs to a plan of many cores and kernel "
                      "functions",
                      buildCoresMapPipeline);
  registerWithMachine(
      "cores",
      "canonical programs to a plan of many cores and kernels "
      "in the LLVM dialect",
      [](OpPassManager &manager, StringRef machine, const Level &level) {
        buildCoresMapPipeline(manager, machine, level);
        buildLowerPipeline(manager, level);
      });
}
