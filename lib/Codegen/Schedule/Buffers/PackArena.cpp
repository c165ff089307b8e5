//===- PackArena.cpp - Packing of buffers into one arena ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packing is NP-hard, so this is a heuristic. Buffers are placed one after
// another, each in the smallest gap in which it fits. Several orders are tried.
// Then the buffers at the top of the best packing are placed earlier, as long
// as this makes the arena smaller.
//
//===----------------------------------------------------------------------===//

#include "PackArena.h"

#include "mlir/Support/LLVM.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVector.h"

using namespace mlir;
using namespace mlir::repro;

/// The maximum number of pairs of items that are compared in the search for a
/// better packing.
static constexpr int64_t maxComparisons = 100'000'000;

using Order = SmallVector<unsigned>;

int64_t mlir::repro::getMaxLiveBytes(ArrayRef<ArenaItem> items) {
  SmallVector<std::pair<int64_t, int64_t>> changes; // launch number, bytes
  for (const ArenaItem &item : items) {
    if (item.life.last < item.life.first)
      continue; // not used by any launch
    changes.emplace_back(item.life.first, item.bytes);
    changes.emplace_back(item.life.last + 1, -item.bytes);
  }
  llvm::sort(changes); // ends sort before begins of the same launch
  int64_t live = 0, most = 0;
  for (auto [position, bytes] : changes)
    most = std::max(most, live += bytes);
  return most;
}

/// Sets the offsets of the items by placing them in the given order. Returns
/// the size of the arena in bytes.
static int64_t place(ArrayRef<ArenaItem> items, ArrayRef<unsigned> order,
                     SmallVectorImpl<int64_t> &offsets) {
  offsets.assign(items.size(), 0);
  int64_t arenaBytes = 0;
  SmallVector<unsigned> placed; // sorted by offset
  for (unsigned index : order) {
    const ArenaItem &item = items[index];
    int64_t best = -1, bestGap = std::numeric_limits<int64_t>::max();
    int64_t end = 0;
    for (unsigned other : placed) {
      if (!items[other].life.overlaps(item.life))
        continue;
      int64_t gap = offsets[other] - end;
      if (gap >= item.bytes && gap < bestGap) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, offsets[other] + items[other].bytes);
    }
    offsets[index] = best >= 0 ? best : end;
    arenaBytes = std::max(arenaBytes, offsets[index] + item.bytes);
    placed.insert(llvm::upper_bound(placed, offsets[index],
                                    [&](int64_t offset, unsigned other) {
                                      return offset < offsets[other];
                                    }),
                  index);
  }
  return arenaBytes;
}

int64_t mlir::repro::packArena(MutableArrayRef<ArenaItem> items) {
  int64_t leastPossible = getMaxLiveBytes(items);
  int64_t pairs = std::max<int64_t>(1, items.size() * items.size());
  int64_t tries = std::max<int64_t>(1, maxComparisons / pairs);
  int64_t best = std::numeric_limits<int64_t>::max();
  Order bestOrder;
  SmallVector<int64_t> offsets, bestOffsets;
  // Packs in the given order. If the arena is the smallest so far, keeps its
  // offsets and returns true.
  auto attempt = [&](const Order &order) {
    --tries;
    int64_t bytes = place(items, order, offsets);
    if (bytes >= best)
      return false;
    best = bytes;
    bestOrder = order;
    bestOffsets = offsets;
    return true;
  };

  auto length = [&](unsigned i) {
    return items[i].life.last - items[i].life.first + 1;
  };
  auto attemptBy = [&](auto &&before) {
    if (best == leastPossible || tries <= 0)
      return;
    Order order = llvm::to_vector(llvm::seq<unsigned>(0, items.size()));
    llvm::stable_sort(order, before);
    attempt(order);
  };
  attemptBy(
      [&](unsigned a, unsigned b) { return items[a].bytes > items[b].bytes; });
  attemptBy([&](unsigned a, unsigned b) { return length(a) > length(b); });
  attemptBy([&](unsigned a, unsigned b) {
    return double(items[a].bytes) * length(a) >
           double(items[b].bytes) * length(b);
  });
  attemptBy([&](unsigned a, unsigned b) {
    return items[a].life.first < items[b].life.first;
  });

  // The items at the top of the arena determine its size, so place them
  // earlier.
  for (bool better = true; better && best > leastPossible && tries > 0;) {
    better = false;
    Order front, rest;
    for (unsigned index : bestOrder)
      (bestOffsets[index] + items[index].bytes == best ? front : rest)
          .push_back(index);
    for (size_t at = rest.size(); tries > 0 && at > 0 && !better; at /= 2) {
      Order order(rest);
      order.insert(order.begin() + at / 2, front.begin(), front.end());
      better = attempt(order);
    }
  }
  for (auto [item, offset] : llvm::zip_equal(items, bestOffsets))
    item.offset = offset;
  return items.empty() ? 0 : best;
}
