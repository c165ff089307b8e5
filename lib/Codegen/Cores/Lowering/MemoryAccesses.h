//===- MemoryAccesses.h - Finds races in one memory -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MEMORYACCESSES_H
#define REPRO_CODEGEN_CORES_MEMORYACCESSES_H

#include "StridedBytes.h"

#include "mlir/IR/Operation.h"

#include <array>
#include <optional>

namespace mlir::repro::cores {

/// An access to a memory by the operations [start, end] of a program, which are
/// a transfer and its wait, or one operation.
struct Access {
  StridedBytes bytes;
  bool isWrite;
  unsigned program, start, end;
  /// If the access is the arrival of a send: the program where the send
  /// arrives, and the operation that waits for the arrival.
  std::optional<std::pair<unsigned, unsigned>> acquired;
  Operation *op;
};

/// The accesses to one memory that a later access may conflict with.
class MemoryAccesses {
public:
  explicit MemoryAccesses(int64_t bytes);

  using IsBefore = function_ref<bool(const Access &earlier)>;

  /// Adds an access. No access that is added later is ordered before it.
  /// Returns an access with which the new one conflicts: the accesses have a
  /// byte in common, one of them writes, and the other one is not ordered
  /// before the new one.
  std::optional<Access> add(const Access &access, IsBefore isBefore);

private:
  /// Each access lies in the smallest bin that contains it: the bins of a level
  /// are eight times as large as those of the level before.
  static constexpr unsigned numLevels = 5;
  struct Bin {
    SmallVector<Access, 0> reads, writes;
  };

  size_t getBin(unsigned level, int64_t byte) const {
    return levelStarts[level] + size_t(byte >> (shift + 3 * level));
  }

  unsigned shift = 0; ///< the smallest bins have 2^shift bytes
  std::array<size_t, numLevels> levelStarts{};
  std::vector<Bin> bins;
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MEMORYACCESSES_H
