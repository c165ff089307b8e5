//===- ReadDevicePlan.cpp - Reads the launch plan of a GPU ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Lowering/ReadDevicePlan.h"

using namespace mlir;
using namespace mlir::repro;

FailureOr<TranslatedPlan> mlir::repro::readDevicePlan(ModuleOp module) {
  auto describe = [](launch::DispatchOp dispatch,
                     ::repro_runtime::Kernel &kernel) {
    llvm::copy(*dispatch.getBlock(), kernel.block.begin());
    kernel.sharedBytes = dispatch.getSharedBytes().value_or(0);
    return success();
  };
  FailureOr<TranslatedPlan> result =
      translatePlan(module, ::repro_runtime::Processor::GPU, describe);
  // Earlier messages have greater numbers in the error word
  // (DeviceBuilder.cpp), so the plan has the messages in reverse order.
  if (succeeded(result))
    std::reverse(result->plan.messages.begin(), result->plan.messages.end());
  return result;
}
