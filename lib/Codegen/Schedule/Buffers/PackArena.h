//===- PackArena.h - Packing of buffers into one arena ----------*- C++ -*-===//
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

/// The numbers of the first and the last launch that use a buffer. `last` is
/// less than `first` if none does.
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

/// A buffer that is placed in the arena.
struct ArenaItem {
  int64_t bytes; ///< a multiple of the alignment
  Lifetime life;
  int64_t offset = 0;
};

/// Returns the maximum number of bytes that are live during one launch. The
/// arena cannot be smaller than this number.
int64_t getMaxLiveBytes(llvm::ArrayRef<ArenaItem> items);

/// Sets the offsets so that items with overlapping lifetimes do not overlap in
/// the arena. Returns the size of the arena in bytes. The result is
/// deterministic.
int64_t packArena(llvm::MutableArrayRef<ArenaItem> items);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_PACKARENA_H
