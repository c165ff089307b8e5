//===- SimulatedTime.h - Time in a simulation -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_SIMULATOR_SIMULATEDTIME_H
#define REPRO_SIMULATOR_SIMULATEDTIME_H

#include <cmath>
#include <cstdint>

namespace repro_simulator {

/// Femtoseconds. Integers make the order of events, and so the simulated time,
/// the same on each host.
using Time = uint64_t;

/// More than an hour: the end of each simulation. Sums of a time and a duration
/// cannot overflow.
constexpr Time endOfTime = Time(1) << 62;

/// Returns a duration, rounded up.
inline Time fromSeconds(double seconds) {
  double time = std::ceil(seconds * 1e15);
  return time < double(endOfTime) ? Time(time) : endOfTime;
}

inline double toSeconds(Time time) { return double(time) * 1e-15; }

} // namespace repro_simulator

#endif // REPRO_SIMULATOR_SIMULATEDTIME_H
