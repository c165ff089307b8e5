//===- Counter.h - Counts the work of instructions --------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_COUNTER_H
#define REPRO_EMULATOR_COUNTER_H

#include "Emulator/Emulator.h"

#include <algorithm>
#include <unordered_set>

namespace repro_emulator {

/// Counts the work of the blocks of a launch, which run one after another.
class Counter {
public:
  Counter(const Kernel &kernel, const std::vector<Region> &regions,
          uint64_t most);

  /// Prepares for a new block, which has accessed no sectors and executed no
  /// instructions.
  void startBlock();
  /// Records that a warp runs `run` instructions from number `place` on.
  /// Returns false if the block has reached the maximum number of instructions.
  bool addRun(uint32_t place, uint32_t run) {
    ++starts[place];
    --starts[place + run];
    left -= std::min<uint64_t>(left, run);
    return left != 0;
  }
  /// Counts the 32-byte sectors that an access to global memory touches.
  void addGlobal(uint32_t place, const uint64_t *addresses, uint32_t mask,
                 unsigned bytes, bool reads, bool writes);
  /// Counts the wavefronts (cycles) of an access to shared memory.
  void addShared(uint32_t place, const uint64_t *addresses, uint32_t mask,
                 unsigned bytes);

  /// Returns the counts of all blocks, and ends the counting.
  Counts take();

private:
  const std::vector<Region> &regions;
  uint64_t most, left = 0;
  /// For each instruction: the number of recorded runs that begin there, minus
  /// the number of recorded runs whose last instruction is the one before it.
  std::vector<int64_t> starts;
  std::unordered_set<uint64_t> seen; // sectors that the block has accessed
  Counts counts;
};

} // namespace repro_emulator

#endif // REPRO_EMULATOR_COUNTER_H
