//===- ReadPlan.cpp - The launches on a CPU -------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Lowering/ReadPlan.h"

#include "Codegen/Schedule/Buffers/PlanReader.h"

using namespace mlir;
using namespace mlir::repro;

LogicalResult mlir::repro::readPlan(ModuleOp module, const Level &level,
                                    ::repro_runtime::Plan &plan,
                                    std::string &constants) {
  FailureOr<launch::PlanOp> found = findPlan(module);
  if (failed(found))
    return failure();
  PlanReader reader(*found);
  plan.level = level.name;
  reader.readTensors(plan);
  SymbolTable symbols(module);
  DenseMap<Operation *, uint32_t> kernels;
  for (auto dispatch : found->getBody().getOps<launch::DispatchOp>()) {
    StringAttr name = dispatch.getKernel().getRootReference();
    Operation *function = symbols.lookup(name);
    auto [number, isNew] = kernels.try_emplace(function, plan.kernels.size());
    if (isNew) {
      auto attr = [&](StringRef name) {
        return function->getAttrOfType<IntegerAttr>(name);
      };
      if (!attr("repro.work_items") || !attr("repro.work_grain") ||
          !attr("repro.scratch_bytes"))
        return function->emitError(
            "expected a kernel that repro-expand-kernels "
            "expanded, with its work and scratch set");
      plan.kernels.push_back({name.str(),
                              uint64_t(attr("repro.work_items").getInt()),
                              uint64_t(attr("repro.work_grain").getInt())});
      plan.scratchBytes = std::max<uint64_t>(
          plan.scratchBytes, attr("repro.scratch_bytes").getInt());
    }
    ::repro_runtime::Launch launch{number->second, dispatch.getChecked(), {}};
    for (Value operand : dispatch.getBuffers()) {
      auto buffer = reader.locate(operand);
      if (failed(buffer))
        return failure();
      launch.buffers.push_back(*buffer);
    }
    plan.launches.push_back(std::move(launch));
  }
  constants = reader.takeConstants();
  return success();
}
