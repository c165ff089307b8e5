//===- MemoryAccesses.cpp - Finds races in one memory ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryAccesses.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

MemoryAccesses::MemoryAccesses(int64_t bytes) {
  // The largest level has one bin.
  constexpr unsigned levelBits = 3 * (numLevels - 1);
  unsigned bits = llvm::Log2_64_Ceil(std::max<int64_t>(bytes, 1));
  constexpr unsigned leastBits = 9;
  shift = std::max(bits > levelBits ? bits - levelBits : 0, leastBits);
  size_t count = 0;
  for (unsigned level = 0; level < numLevels; ++level) {
    levelStarts[level] = count;
    count += size_t(std::max<int64_t>(bytes - 1, 0) >> (shift + 3 * level)) + 1;
  }
  bins.resize(count);
}

std::optional<Access> MemoryAccesses::add(const Access &access,
                                          IsBefore isBefore) {
  if (access.bytes.isEmpty())
    return std::nullopt;
  int64_t first = access.bytes.begin, last = access.bytes.end - 1;
  // Returns the access of the list that conflicts. Removes those that the new
  // write makes superfluous: what conflicts with them conflicts with the write.
  auto visit = [&](SmallVector<Access, 0> &list) -> std::optional<Access> {
    for (size_t i = 0; i < list.size();) {
      const Access &other = list[i];
      if (!overlap(other.bytes, access.bytes)) {
        ++i;
        continue;
      }
      if (!isBefore(other))
        return other;
      if (access.isWrite && contains(access.bytes, other.bytes)) {
        list[i] = std::move(list.back());
        list.pop_back();
      } else {
        ++i;
      }
    }
    return std::nullopt;
  };
  for (unsigned level = 0; level < numLevels; ++level)
    for (size_t bin = getBin(level, first); bin <= getBin(level, last); ++bin) {
      if (auto conflict = visit(bins[bin].writes))
        return conflict;
      if (access.isWrite)
        if (auto conflict = visit(bins[bin].reads))
          return conflict;
    }
  unsigned level = 0;
  while (getBin(level, first) != getBin(level, last))
    ++level;
  Bin &bin = bins[getBin(level, first)];
  (access.isWrite ? bin.writes : bin.reads).push_back(access);
  return std::nullopt;
}
