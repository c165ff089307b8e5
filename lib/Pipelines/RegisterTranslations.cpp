//===- RegisterTranslations.cpp - Registers translations to bytes ---------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipelines/Registration.h"

#include "Codegen/Cores/Lowering/EmitCores.h"
#include "Codegen/GPU/Lowering/ReadDevicePlan.h"
#include "Pipelines/CPU.h"

#include "mlir/Tools/mlir-translate/Translation.h"

#include "llvm/Support/CommandLine.h"

using namespace mlir;

void repro::registerTranslations() {
  static llvm::cl::opt<std::string> level(
      "level", llvm::cl::desc("the CPU level that the kernels are made for"),
      llvm::cl::init("x86-64-v3"));
  // Translates the code of a module for the CPU level.
  auto translate = [](auto translateForLevel) {
    return [=](ModuleOp module, raw_ostream &stream) -> LogicalResult {
      std::string error;
      FailureOr<Level> found = getLevel(level, error);
      if (failed(found))
        return module.emitError(error);
      FailureOr<std::string> bytes =
          translateForLevel(module, *found, /*jobs=*/1);
      if (failed(bytes))
        return failure();
      stream << *bytes;
      return success();
    };
  };
  static TranslateFromMLIRRegistration artifact(
      "launch-to-artifact",
      "what the pipeline 'cpu' leaves to the bytes that the executor runs",
      translate(translateToArtifact), registerDialects);
  static TranslateFromMLIRRegistration corePlan(
      "cores-to-plan",
      "a plan of many cores with lowered kernels to the bytes that the "
      "simulator runs",
      translate(translateToCorePlan), registerDialects);
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
