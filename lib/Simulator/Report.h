//===- Report.h - Measurements of a simulated step --------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_SIMULATOR_REPORT_H
#define REPRO_SIMULATOR_REPORT_H

#include "Simulator/CorePlan.h"
#include "Simulator/Network.h"

namespace repro_simulator {

/// An activity of a core from `begin` to `end`.
struct Interval {
  enum Kind {
    Running,       ///< a kernel
    Synchronizing, ///< the cost of a release, an acquire or a check
    Waiting,       ///< for a transfer or a counter
    Transferring,  ///< a DMA engine is busy, at the same time as the program
  };
  Kind kind;
  uint32_t program, op;
  Time begin, end;
};

/// The measurements of a step.
struct Report {
  struct CoreTimes {
    Time running = 0, synchronizing = 0, waiting = 0;
    Time transferring = 0; ///< at least one engine is busy
    Time end = 0;          ///< of the program
  };
  struct KernelTimes {
    uint64_t runs = 0;
    Time time = 0;
  };

  /// From the begin of the first operation to the end of the last one.
  Time time = 0;
  /// Lower bounds of the time of any schedule of the same kernels on the same
  /// cores, and of the same transfers: the kernels of the busiest core, the
  /// bytes of the busiest channel, the bytes through the busiest cut.
  Time computeBound = 0, channelBound = 0, bisectionBound = 0;
  std::vector<CoreTimes> cores;     ///< by program
  std::vector<KernelTimes> kernels; ///< as in the plan
  std::vector<Link> links;          ///< those that carried a transfer
  /// In the order in which the intervals end; empty unless the caller sets
  /// `hasTimeline`.
  bool hasTimeline = false;
  std::vector<Interval> timeline;
};

/// Returns the report as JSON, which docs/guides/many-cores.md describes.
std::string writeReport(const Report &report, const CorePlan &plan,
                        double callSeconds);

} // namespace repro_simulator

#endif // REPRO_SIMULATOR_REPORT_H
