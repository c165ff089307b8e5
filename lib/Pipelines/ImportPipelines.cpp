//===- ImportPipelines.cpp - Converts imported programs to canonical ones -===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipelines `import-linalg`, `import-tosa` and `canonical`, which the frontends
// run: convert imported programs to canonical ones, which the last pass of
// `canonical` verifies.
//
//===----------------------------------------------------------------------===//

#include "Pipelines/Pipelines.h"

#include "Conversion/Passes.h"
#include "Dialect/Repro/Transforms/Passes.h"

#include "mlir/Conversion/TosaToArith/TosaToArith.h"
#include "mlir/Conversion/TosaToLinalg/TosaToLinalg.h"
#include "mlir/Conversion/TosaToSCF/TosaToSCF.h"
#include "mlir/Conversion/TosaToTensor/TosaToTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

// No pass before convert-math-to-repro may fold constants: the folders of the
// math dialect call the libm of the host (S5).
void repro::buildImportLinalgPipeline(OpPassManager &pm) {
  pm.addPass(createReproStripAttributes());
  pm.addPass(createConvertTMTensorToRepro());
  pm.addPass(createConvertMathToRepro());
  pm.addPass(createReproUnrollLoops());
  pm.addPass(createConvertLinalgToRepro());
}

void repro::buildImportTosaPipeline(OpPassManager &pm) {
  pm.addPass(createConvertTosaToRepro());
  OpPassManager &functions = pm.nest<func::FuncOp>();
  // Convert loops and branches first: the TOSA passes below also convert the
  // operations within them.
  functions.addPass(createTosaToSCFPass());
  functions.addPass(tosa::createTosaToLinalgNamed());
  functions.addPass(tosa::createTosaToLinalg());
  // The passes above leave `tosa.apply_scale`, which rescales sums of quantized
  // numbers, in the bodies of the operations that they create.
  TosaToArithPassOptions arithmetic;
  arithmetic.includeApplyRescale = true;
  functions.addPass(createTosaToArithPass(arithmetic));
  functions.addPass(createTosaToTensorPass());
  buildImportLinalgPipeline(pm);
}

void repro::buildCanonicalPipeline(OpPassManager &pm) {
  pm.addPass(createReproDecomposeAttention());
  pm.addPass(createReproDecomposeConvolution());
  pm.addPass(createReproDecomposeDistributions());
  pm.addPass(createReproWidenStorage());
  pm.addPass(createReproAssignOrders());
  pm.addPass(createReproFoldConstants());
  pm.addPass(createCSEPass());
  pm.addPass(createReproVerifyCanonical());
}

void repro::registerImportPipelines() {
  PassPipelineRegistration<>("import-linalg",
                             "imported linalg to repro operations",
                             buildImportLinalgPipeline);
  PassPipelineRegistration<>("import-tosa", "TOSA to repro operations",
                             buildImportTosaPipeline);
  PassPipelineRegistration<>(
      "canonical", "imported repro operations to the canonical program",
      buildCanonicalPipeline);
}
