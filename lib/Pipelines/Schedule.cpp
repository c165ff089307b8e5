//===- Schedule.cpp - Converts canonical programs to kernels and a plan ---===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipeline `schedule`, which the pipelines of all targets run first: converts a
// canonical program to kernel functions and a plan, without changing a bit of a
// result.
//
//===----------------------------------------------------------------------===//

#include "Pipelines/Pipelines.h"

#include "Codegen/Schedule/Buffers/Passes.h"
#include "Codegen/Schedule/Tensors/Passes.h"
#include "Dialect/Repro/Transforms/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::repro;

void mlir::repro::buildSchedulePipeline(OpPassManager &manager,
                                        const ScheduleOptions &options) {
  // The passes below rely on the bounds and sizes of canonical programs, so
  // verify the program here.
  manager.addPass(createReproVerifyCanonical());
  ReproDecomposeBlocksOptions blocks;
  blocks.fillSteps = options.hasByteMatrices;
  manager.addPass(createReproDecomposeBlocks(blocks));
  OpPassManager &functions = manager.nest<func::FuncOp>();
  functions.addPass(createReproExpandChecks());
  ReproDecomposeExactOptions exact;
  exact.keepMatrices = options.hasByteMatrices;
  exact.sumBytes = options.hasByteArrays;
  functions.addPass(createReproDecomposeExact(exact));
  functions.addPass(createReproDecomposeRandom());
  functions.addPass(createReproInsertSlices());
  functions.addPass(createReproSinkScalars());
  functions.addPass(createReproCanonicalize());
  functions.addPass(createCSEPass());
  functions.addPass(createReproFuseElementwise());
  functions.addPass(createReproCanonicalize());
  functions.addPass(createCSEPass());
  manager.addPass(createReproBufferize());
  // CSE comes first: canonicalization removes a copy of a buffer to itself only
  // if source and target are the same value.
  manager.addNestedPass<func::FuncOp>(createCSEPass());
  manager.addNestedPass<func::FuncOp>(createReproCanonicalize());
  manager.addNestedPass<func::FuncOp>(createCSEPass());
  manager.addPass(createReproNumberChecks());
  if (options.fuseEpilogues)
    manager.addNestedPass<func::FuncOp>(createReproFuseEpilogues());
  if (options.fuseRows)
    manager.addNestedPass<func::FuncOp>(createReproFuseRows());
  manager.addPass(createReproOutlineKernels());
  manager.addPass(createReproPlanBuffers());
}

namespace {
struct SchedulePipelineOptions
    : public PassPipelineOptions<SchedulePipelineOptions> {
  Option<bool> fuseRows{
      *this, "fuse-rows",
      llvm::cl::desc("make one kernel of operations on the same rows")};
  Option<bool> fuseEpilogues{
      *this, "fuse-epilogues",
      llvm::cl::desc(
          "make one kernel of a contraction and the operation on its results")};
};
} // namespace

void mlir::repro::registerSchedulePipeline() {
  PassPipelineRegistration<SchedulePipelineOptions>(
      "schedule", "canonical programs to kernel functions and a plan",
      [](OpPassManager &manager, const SchedulePipelineOptions &options) {
        ScheduleOptions schedule;
        schedule.fuseRows = options.fuseRows;
        schedule.fuseEpilogues = options.fuseEpilogues;
        buildSchedulePipeline(manager, schedule);
      });
}
