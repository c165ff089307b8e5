//===- LoadedCorePlan.cpp - Loads core plans into this process ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Execution/LoadedCorePlan.h"

using namespace mlir;
using namespace mlir::repro;

std::unique_ptr<LoadedCorePlan> LoadedCorePlan::create(StringRef bytes,
                                                       std::string &error) {
  repro_simulator::CorePlan plan;
  error = repro_simulator::readCorePlan({bytes.data(), bytes.size()}, plan);
  if (!error.empty())
    return nullptr;
  FailureOr<ManyCore> machine = readManyCore(plan.machine, error);
  if (failed(machine)) {
    error = "damaged core plan: its machine: " + error;
    return nullptr;
  }
  // Only files and built-in machines have names.
  machine->name = "the machine";
  std::unique_ptr<LoadedCorePlan> result(new LoadedCorePlan);
  result->bytes = std::move(plan.objects);
  SmallVector<::repro_runtime::Bytes> objects;
  for (const std::string &object : result->bytes)
    objects.push_back({object.data(), object.size()});
  result->objects =
      LoadedObjects::create("core plan", objects, plan.level,
                            plan.kernels.size(), /*hasArrays=*/true, error);
  if (!result->objects)
    return nullptr;
  result->simulator =
      repro_simulator::Simulator::create(std::move(plan), std::move(*machine),
                                         result->objects->getKernels(), error);
  return result->simulator ? std::move(result) : nullptr;
}
