//===- Simulator.h - Runs plans of many cores -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A simulation by discrete events. The kernels run as code of the host on
// simulated memories, so a step has the same bits as on all other targets.
// docs/guides/many-cores.md describes what is checked and counted.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_SIMULATOR_SIMULATOR_H
#define REPRO_SIMULATOR_SIMULATOR_H

#include "Runtime/Executor.h"
#include "Simulator/CheckPlan.h"
#include "Simulator/Network.h"
#include "Simulator/Report.h"

#include <functional>
#include <memory>
#include <mutex>

namespace repro_simulator {

using ::repro_runtime::KernelEntry;

/// The outcome of a step.
enum class Outcome {
  Success,
  CheckFailed, ///< (E1) the states are unchanged
  WrongPlan,   ///< the states and outputs are undefined
  Interrupted, ///< likewise
};

class Simulator {
public:
  /// Loads a plan, which readCorePlan has read. `kernels` are the entry points
  /// of the plan's kernels. Returns null and sets `error` if the plan does not
  /// fit the machine.
  static std::unique_ptr<Simulator> create(CorePlan plan,
                                           mlir::repro::ManyCore machine,
                                           std::vector<KernelEntry> kernels,
                                           Error &error);

  const CorePlan &getPlan() const { return plan; }
  const mlir::repro::ManyCore &getMachine() const { return machine; }

  /// Runs one step; `buffers` lists the states, inputs and outputs in this
  /// order. Concurrent calls are serialized. The step ends soon after
  /// `isInterrupted`, which is called many times in a second, returns true.
  Outcome run(char *const *buffers, const std::function<bool()> &isInterrupted,
              Report &report, Error &error);

private:
  Simulator(CorePlan plan, mlir::repro::ManyCore machine,
            std::vector<KernelEntry> kernels)
      : plan(std::move(plan)), machine(std::move(machine)),
        kernels(std::move(kernels)) {}

  CorePlan plan;
  mlir::repro::ManyCore machine;
  std::vector<KernelEntry> kernels;
  PlanIndex index;
  std::unique_ptr<Network> network;
  std::mutex mutex;
  /// The accesses of all steps are the same, so they are checked until a step
  /// has run to its end.
  bool areAccessesChecked = false;
};

} // namespace repro_simulator

#endif // REPRO_SIMULATOR_SIMULATOR_H
