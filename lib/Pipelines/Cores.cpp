//===- Cores.cpp - Maps canonical programs onto many cores ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipelines `cores-map` and `cores-lower`, and the driver that compiles a
// program with them: map a canonical program onto a machine of many cores with
// small memories, without changing a bit of a result.
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
#include "dialects/Cores/IR/Cores.h"

#include "mlir/Pass/PassRegistry.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::repro;

void mlir::repro::buildCoresPlacePipeline(OpPassManager &manager,
                                          const CoreMappingOptions &options) {
  // A fused kernel has no tiles: its operations share blocks of rows, or
  // registers.
  ScheduleOptions schedule;
  std::string error;
  // Passes report the error of a machine that cannot be read.
  if (FailureOr<ManyCore> description = getManyCore(options.machine, error);
      succeeded(description))
    schedule.hasByteArrays = description->matrixOperandBits == 8 &&
                             description->getMostMatrixProducts() > 0;
  buildSchedulePipeline(manager, schedule);
  ReproMapMatrixOptions matrix;
  matrix.machine = options.machine;
  manager.addPass(createReproMapMatrix(matrix));
  ReproMapSplitOptions split;
  split.machine = options.machine;
  split.cuts = options.cuts;
  manager.addPass(createReproMapSplit(split));
  ReproMapPartitionOptions partition;
  partition.machine = options.machine;
  partition.strategy = options.strategy;
  manager.addPass(createReproMapPartition(partition));
  ReproMapTileOptions tile;
  tile.machine = options.machine;
  tile.multicasts = options.multicasts;
  manager.addPass(createReproMapTile(tile));
  ReproMapPlaceOptions place;
  place.machine = options.machine;
  place.homes = options.homes;
  manager.addPass(createReproMapPlace(place));
}

void mlir::repro::buildCoresMapPipeline(OpPassManager &manager,
                                        const CoreMappingOptions &options) {
  buildCoresPlacePipeline(manager, options);
  ReproMapScheduleOptions schedule;
  schedule.machine = options.machine;
  manager.addPass(createReproMapSchedule(schedule));
  if (!options.verify)
    return;
  manager.addPass(createReproVerifyCores());
  manager.addPass(createReproVerifyCoreMapping());
}

void mlir::repro::buildCoresLowerPipeline(OpPassManager &manager,
                                          const Level &level) {
  ReproExpandMatricesOptions matrices;
  matrices.level = level.description;
  manager.addPass(createReproExpandMatrices(matrices));
  buildCPUExpandPipeline(manager, level);
  buildCPULowerPipeline(manager, level);
}

FailureOr<std::string>
mlir::repro::compileForCores(ModuleOp canonical, StringRef machine,
                             const Level &level, unsigned jobs, bool timing) {
  OwningOpRef<ModuleOp> module = canonical.clone();
  if (failed(runAndLower(*module, timing,
                         [&](OpPassManager &map, OpPassManager &lower) {
                           buildCoresMapPipeline(map, {machine.str()});
                           buildCoresLowerPipeline(lower, level);
                         })))
    return failure();
  return translateToCorePlan(*module, level, jobs);
}

FailureOr<std::string> mlir::repro::describeForCores(ModuleOp canonical,
                                                     StringRef machine) {
  OwningOpRef<ModuleOp> module = canonical.clone();
  std::string error;
  FailureOr<ManyCore> description = getManyCore(machine, error);
  if (failed(description))
    return module->emitError(error);
  PassManager manager(module->getContext(), ModuleOp::getOperationName());
  buildCoresPlacePipeline(manager, {machine.str()});
  if (failed(manager.run(*module))) {
    StringAttr overflow =
        cores::CoresDialect::OverflowAttrHelper(module->getContext())
            .getAttr(*module);
    if (!overflow)
      return failure();
    return llvm::formatv("{0}", llvm::json::Value(llvm::json::Object{
                                    {"overflow", overflow.getValue()}}))
        .str();
  }
  return cores::describeMapping(*module->getOps<launch::PlanOp>().begin(),
                                *description);
}

namespace {
struct MapOptions : public PassPipelineOptions<MapOptions> {
  Option<std::string> machine{
      *this, "machine",
      llvm::cl::desc("the machine of many cores, or the path of its file"),
      llvm::cl::init("tiny-2x2")};
  Option<std::string> cuts{*this, "cuts",
                           llvm::cl::desc("the cuts of repro-map-split"),
                           llvm::cl::init("gain")};
  Option<std::string> strategy{
      *this, "strategy", llvm::cl::desc("the strategy of repro-map-partition"),
      llvm::cl::init("time")};
  Option<std::string> multicasts{
      *this, "multicasts", llvm::cl::desc("the multicasts of repro-map-tile"),
      llvm::cl::init("time")};
  Option<std::string> homes{*this, "homes",
                            llvm::cl::desc("the homes of repro-map-place"),
                            llvm::cl::init("cores")};
  Option<bool> verify{*this, "verify",
                      llvm::cl::desc("whether the plan is verified; if not, "
                                     "the launch plan stays next to it"),
                      llvm::cl::init(true)};
};

struct LevelOptions : public PassPipelineOptions<LevelOptions> {
  Option<std::string> level{*this, "level",
                            llvm::cl::desc("the CPU level of the kernels' "
                                           "code, or the path of a "
                                           "machine's file"),
                            llvm::cl::init("x86-64-v3")};
};
} // namespace

void mlir::repro::registerCoresPipelines() {
  PassPipelineRegistration<MapOptions>(
      "cores-map",
      "canonical programs to a plan of many cores and kernel functions",
      [](OpPassManager &manager, const MapOptions &options) {
        buildCoresMapPipeline(manager, {options.machine, options.cuts,
                                        options.strategy, options.multicasts,
                                        options.homes, options.verify});
      });
  PassPipelineRegistration<LevelOptions>(
      "cores-lower", "kernel functions of many cores to the LLVM dialect",
      [](OpPassManager &manager, const LevelOptions &options) {
        std::string error;
        FailureOr<Level> level = getLevel(options.level, error);
        if (failed(level))
          llvm::report_fatal_error(StringRef(error),
                                   /*gen_crash_diag=*/false);
        buildCoresLowerPipeline(manager, *level);
      });
}
