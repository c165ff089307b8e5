//===- PackArena.h - Places of buffers in one arena -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_PACKARENA_H
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_PACKARENA_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <limits>

namespace mlir::repro {

/// The positions that use a buffer, first and last.
struct Lifetime {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = -1;
  void include(int64_t position) {
    first = std::min(first, position);
    last = std::max(last, position);
  }
  bool overlaps(const Lifetime &other) const {
    return first <= other.last && other.first <= last;
  }
};

/// A buffer in the arena.
struct ArenaItem {
  int64_t bytes; ///< a multiple of the alignment
  Lifetime life;
  int64_t offset = 0;
};

/// The most bytes that live at one position: no arena is smaller.
int64_t getMaxLiveBytes(llvm::ArrayRef<ArenaItem> items);

/// Sets the offsets so that items that live together lie apart; returns the
/// size of the arena. The same items give the same offsets.
int64_t packArena(llvm::MutableArrayRef<ArenaItem> items);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_PACKARENA_H
