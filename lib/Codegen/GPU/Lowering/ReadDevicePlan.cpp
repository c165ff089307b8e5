//===- ReadDevicePlan.cpp - The launches of a planned main ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Lowering/ReadDevicePlan.h"

#include "Codegen/Schedule/Buffers/Kernel.h"
#include "Codegen/Schedule/Buffers/PlanReader.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

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
  PlanReader reader(module);
  ::repro_runtime::Plan common;
  if (failed(reader.readTensors(common)))
    return failure();
  llvm::json::Array kernels, launches, messages;
  // The error word counts messages from the last one.
  for (const std::string &message : llvm::reverse(common.messages))
    messages.push_back(llvm::json::fixUTF8(message));
  llvm::StringMap<int64_t> numbers;
  for (auto launch : reader.getMain().getOps<gpu::LaunchFuncOp>()) {
    auto getDims = [](gpu::KernelDim3 dims) {
      return SmallVector<int64_t>{*getConstantIntValue(dims.x),
                                  *getConstantIntValue(dims.y),
                                  *getConstantIntValue(dims.z)};
    };
    int64_t shared = 0;
    if (Value bytes = launch.getDynamicSharedMemorySize())
      shared = *getConstantIntValue(bytes);
    StringRef name = launch.getKernelName();
    auto [number, isNew] = numbers.try_emplace(name, kernels.size());
    if (isNew)
      kernels.push_back(llvm::json::Object{
          {"name", name},
          {"block", toArray(getDims(launch.getBlockSizeOperandValues()))},
          {"shared", shared},
      });
    llvm::json::Array args;
    // The last operand is the error word.
    for (Value operand : launch.getKernelOperands().drop_back()) {
      auto buffer = reader.locate(launch, operand);
      if (failed(buffer))
        return failure();
      args.push_back(llvm::json::Array{getName(buffer->space), buffer->index,
                                       buffer->offset});
    }
    launches.push_back(llvm::json::Object{
        {"kernel", number->second},
        {"grid", toArray(getDims(launch.getGridSizeOperandValues()))},
        {"check", launch->hasAttr(checkAttrName)},
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
