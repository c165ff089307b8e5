//===- Schedule.cpp - From a canonical program to kernels and a plan ------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipelines/Pipelines.h"

#include "dialects/Codegen/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::repro;

void mlir::repro::buildSchedulePipeline(OpPassManager &manager,
                                        bool keepMatrices) {
  OpPassManager &functions = manager.nest<func::FuncOp>();
  ReproDecomposeExactOptions exact;
  exact.keepMatrices = keepMatrices;
  functions.addPass(createReproDecomposeExact(exact));
  functions.addPass(createReproDecomposeRandom());
  functions.addPass(createReproSinkScalars());
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  functions.addPass(createReproFuseElementwise());
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  manager.addPass(createReproBufferize());
  manager.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  manager.addNestedPass<func::FuncOp>(createCSEPass());
  manager.addPass(createReproOutlineKernels());
  manager.addPass(createReproPlanBuffers());
}

void mlir::repro::registerSchedulePipeline() {
  PassPipelineRegistration<>(
      "schedule", "canonical programs to kernel functions and a plan",
      [](OpPassManager &manager) { buildSchedulePipeline(manager); });
}
