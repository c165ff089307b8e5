//===- CheckPlan.h - Checks a plan against its machine ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_SIMULATOR_CHECKPLAN_H
#define REPRO_SIMULATOR_CHECKPLAN_H

#include "Simulator/CorePlan.h"
#include "Target/ManyCore.h"

#include <map>
#include <set>

namespace repro_simulator {

/// The size of an error word (E1).
constexpr uint64_t wordBytes = sizeof(int64_t);

/// The programs that add to a counter of a core.
struct CounterUse {
  uint64_t additions = 0;
  std::set<uint32_t> sources; ///< programs
  /// The counts that a later addition may reach before an earlier one.
  std::set<uint64_t> unordered;
};

/// Looks up the things that the operations of a plan name.
struct PlanIndex {
  std::map<Core, uint32_t> programs; ///< the number of each core's program
  /// By program and counter.
  std::map<std::pair<uint32_t, uint32_t>, CounterUse> counters;
  /// By program: the largest number of transfers in flight.
  std::vector<uint32_t> inFlight;
};

/// Returns "core [0, 1], op 7 (run tile_3)".
std::string describeOp(const CorePlan &plan, uint32_t program, uint32_t op);

/// Checks a plan, which readCorePlan has read: its cores and memories against
/// the machine, the buffers of kernels against each other, and that each
/// acquire waits for additions that the plan determines.
Error checkPlan(const CorePlan &plan, const mlir::repro::ManyCore &machine,
                PlanIndex &index);

} // namespace repro_simulator

#endif // REPRO_SIMULATOR_CHECKPLAN_H
