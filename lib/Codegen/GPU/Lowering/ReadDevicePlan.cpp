//===- ReadDevicePlan.cpp - The launches on a GPU -------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Lowering/ReadDevicePlan.h"

#include "Codegen/Schedule/Buffers/PlanReader.h"

#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::repro;

static llvm::json::Array
describe(const std::vector<::repro_runtime::Tensor> &tensors) {
  llvm::json::Array result;
  for (const ::repro_runtime::Tensor &tensor : tensors)
    result.push_back(llvm::json::Object{
        {"name", tensor.name},
        {"element", tensor.element},
        {"shape", llvm::json::Array(tensor.shape)},
        {"bytes", tensor.bytes},
    });
  return result;
}

static StringRef getName(::repro_runtime::Space space) {
  static constexpr StringLiteral names[] = {"state", "input", "output", "arena",
                                            "constant"};
  return names[static_cast<uint32_t>(space)];
}

static llvm::json::Array toArray(ArrayRef<int64_t> values) {
  return llvm::json::Array(values);
}

LogicalResult mlir::repro::readDevicePlan(ModuleOp module, std::string &plan,
                                          std::string &constants) {
  FailureOr<launch::PlanOp> found = findPlan(module);
  if (failed(found))
    return failure();
  PlanReader reader(*found);
  ::repro_runtime::Plan common;
  reader.readTensors(common);
  llvm::json::Array kernels, launches, messages;
  // The error word counts messages from the last one.
  for (const std::string &message : llvm::reverse(common.messages))
    messages.push_back(llvm::json::fixUTF8(message));
  llvm::DenseMap<Attribute, int64_t> numbers;
  for (auto launch : found->getBody().getOps<launch::DispatchOp>()) {
    if (!launch.getGrid())
      return launch.emitError("expected a launch of a device kernel, which "
                              "repro-expand-device-kernels makes");
    auto [number, isNew] =
        numbers.try_emplace(launch.getKernel(), kernels.size());
    if (isNew)
      kernels.push_back(llvm::json::Object{
          {"name", launch.getKernel().getLeafReference().getValue()},
          {"block", toArray(*launch.getBlock())},
          {"shared", int64_t(launch.getSharedBytes().value_or(0))},
      });
    llvm::json::Array args;
    for (Value operand : launch.getBuffers()) {
      auto buffer = reader.locate(operand);
      if (failed(buffer))
        return failure();
      args.push_back(llvm::json::Array{getName(buffer->space), buffer->index,
                                       buffer->offset});
    }
    launches.push_back(llvm::json::Object{
        {"kernel", number->second},
        {"grid", toArray(*launch.getGrid())},
        {"check", launch.getChecked()},
        {"args", std::move(args)},
    });
  }
  llvm::json::Value result = llvm::json::Object{
      {"arena_bytes", common.arenaBytes},
      {"states", describe(common.states)},
      {"inputs", describe(common.inputs)},
      {"outputs", describe(common.outputs)},
      {"messages", std::move(messages)},
      {"kernels", std::move(kernels)},
      {"launches", std::move(launches)},
  };
  plan.clear();
  llvm::raw_string_ostream(plan) << result;
  constants = reader.takeConstants();
  return success();
}
