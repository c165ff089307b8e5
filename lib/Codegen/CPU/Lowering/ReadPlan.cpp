//===- ReadPlan.cpp - The launch plan of a planned main -------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Lowering/ReadPlan.h"

#include "Codegen/Schedule/Buffers/Kernel.h"
#include "Codegen/Schedule/Buffers/PlanReader.h"

using namespace mlir;
using namespace mlir::repro;

LogicalResult mlir::repro::readPlan(ModuleOp module, const Level &level,
                                    ::repro_runtime::Plan &plan,
                                    std::string &constants) {
  PlanReader reader(module);
  plan.level = level.name;
  if (failed(reader.readTensors(plan)))
    return failure();
  DenseMap<Operation *, uint32_t> kernels;
  for (auto call : reader.getMain().getOps<func::CallOp>()) {
    auto function = reader.getSymbols().lookup<func::FuncOp>(call.getCallee());
    auto [found, isNew] = kernels.try_emplace(function, plan.kernels.size());
    if (isNew) {
      auto attr = [&](StringRef name) {
        return function->getAttrOfType<IntegerAttr>(name);
      };
      if (!attr("repro.work_items") || !attr("repro.work_grain") ||
          !attr("repro.scratch_bytes"))
        return function.emitError("expected a kernel that repro-expand-kernels "
                                  "expanded, with its work and scratch set");
      plan.kernels.push_back({function.getSymName().str(),
                              uint64_t(attr("repro.work_items").getInt()),
                              uint64_t(attr("repro.work_grain").getInt())});
      plan.scratchBytes = std::max<uint64_t>(
          plan.scratchBytes, attr("repro.scratch_bytes").getInt());
    }
    ::repro_runtime::Launch launch{
        found->second, call->hasAttr(checkAttrName), {}};
    for (Value operand : call.getOperands().drop_back(numTrailingKernelArgs)) {
      auto buffer = reader.locate(call, operand);
      if (failed(buffer))
        return failure();
      launch.buffers.push_back(*buffer);
    }
    plan.launches.push_back(std::move(launch));
  }
  constants = reader.takeConstants();
  return success();
}
