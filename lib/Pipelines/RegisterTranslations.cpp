//===- RegisterTranslations.cpp - Registers translations to bytes ---------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipelines/Registration.h"

#include "Codegen/GPU/Lowering/ReadDevicePlan.h"
#include "Pipelines/CPU.h"

#include "mlir/Tools/mlir-translate/Translation.h"

#include "llvm/Support/CommandLine.h"

using namespace mlir;

void repro::registerTranslations() {
  static llvm::cl::opt<std::string> level(
      "level", llvm::cl::desc("the CPU level that the kernels are made for"),
      llvm::cl::init("x86-64-v3"));
  static TranslateFromMLIRRegistration artifact(
      "launch-to-artifact",
      "what the pipeline 'cpu' leaves to the bytes that the executor runs",
      [](ModuleOp module, raw_ostream &stream) -> LogicalResult {
        const Level *found = findLevel(level);
        if (!found)
          return module.emitError("unknown CPU level '")
                 << level << "', expected one of " << listLevels();
        FailureOr<std::string> bytes =
            translateToArtifact(module, *found, /*jobs=*/1);
        if (failed(bytes))
          return failure();
        stream << *bytes;
        return success();
      },
      registerDialects);
  static TranslateFromMLIRRegistration plan(
      "launch-to-plan",
      "the launches that the pipeline 'gpu' leaves to those of a bundle",
      [](ModuleOp module, raw_ostream &stream) -> LogicalResult {
        FailureOr<TranslatedPlan> translated = readDevicePlan(module);
        if (failed(translated))
          return failure();
        stream << ::repro_runtime::writePlan(translated->plan);
        return success();
      },
      registerDialects);
}
