//===- Simulator.cpp - Runs plans of many cores ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simulator/Simulator.h"

#include "Runtime/FloatEnvironment.h"
#include "Simulator/Simulation.h"

using namespace repro_simulator;

std::unique_ptr<Simulator> Simulator::create(CorePlan plan,
                                             mlir::repro::ManyCore machine,
                                             std::vector<KernelEntry> kernels,
                                             Error &error) {
  std::unique_ptr<Simulator> result(
      new Simulator(std::move(plan), std::move(machine), std::move(kernels)));
  error = checkPlan(result->plan, result->machine, result->index);
  if (!error.empty())
    return nullptr;
  result->network = std::make_unique<Network>(result->machine);
  return result;
}

Outcome Simulator::run(char *const *buffers,
                       const std::function<bool()> &isInterrupted,
                       Report &report, Error &error) {
  std::lock_guard<std::mutex> lock(mutex);
  ::repro_runtime::FloatEnvironment environment;
  network->reset();
  Simulation simulation(plan, machine, kernels, index, *network, buffers,
                        !areAccessesChecked, report);
  Outcome outcome = simulation.run(isInterrupted, error);
  areAccessesChecked |= outcome == Outcome::Success;
  return outcome;
}
