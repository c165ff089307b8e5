//===- Dependencies.cpp - What pieces wait for ----------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dependencies.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

/// The memory that the known orders may take.
static constexpr int64_t kMostOrderBytes = int64_t(1) << 30;

namespace {
/// An access of a launch to a root buffer that later launches may depend on.
struct ActiveAccess {
  unsigned launch;
  bool writes;
  Place place;
  ByteRange bytes; ///< from the first to the last byte
  /// The different boxes of the pieces, and the pieces that have each of them.
  std::vector<Box> boxes;
  std::vector<SmallVector<unsigned>> pieces;
};

class DependencyFinder {
public:
  DependencyFinder(ArrayRef<MappedLaunch> launches,
                   MutableArrayRef<std::vector<PlacedPiece>> pieces,
                   unsigned numCores)
      : launches(launches), pieces(pieces),
        orders(numCores, std::vector<int32_t>(numCores, -1)) {
    int64_t bytes = 0;
    for (const std::vector<PlacedPiece> &list : pieces)
      bytes += int64_t(list.size()) * numCores * sizeof(int32_t);
    keepsOrders = bytes <= kMostOrderBytes;
  }

  void run() {
    for (unsigned launch = 0; launch < launches.size(); ++launch) {
      if (pieces[launch].empty())
        continue;
      std::vector<Needed> needed(pieces[launch].size());
      addAccesses(launch, needed);
      addOrders(launch, needed);
    }
    countReleases();
  }

private:
  /// The launches and pieces that a piece depends on.
  using Needed = llvm::SetVector<std::pair<unsigned, unsigned>>;

  void addAccesses(unsigned launch, std::vector<Needed> &needed);
  void addOrders(unsigned launch, ArrayRef<Needed> needed);
  void countReleases();

  ArrayRef<MappedLaunch> launches;
  MutableArrayRef<std::vector<PlacedPiece>> pieces;
  DenseMap<Value, std::vector<ActiveAccess>> active; ///< by root
  /// For each core, the last launch whose pieces on each other core are known
  /// to be complete.
  std::vector<std::vector<int32_t>> orders;
  /// These numbers after each piece.
  std::map<std::pair<unsigned, unsigned>, std::vector<int32_t>> ordersAfter;
  bool keepsOrders = true;
  /// For each core, the launches for which it has waited.
  DenseMap<std::pair<unsigned, unsigned>, std::pair<unsigned, unsigned>>
      waits; ///< (core, launch) -> (launch and piece that waits)
};
} // namespace

void DependencyFinder::addAccesses(unsigned number,
                                   std::vector<Needed> &needed) {
  const MappedLaunch &launch = launches[number];
  SmallVector<ActiveAccess> added;
  SmallVector<Interval> whole = launch.tiles.getWhole();
  for (auto [i, access] : llvm::enumerate(launch.tiles.getAccesses())) {
    if (!access.reads && !access.writes)
      continue;
    SmallVector<ByteRange> bytes =
        getByteRanges(launch.places[i], launch.tiles.getBox(i, whole));
    if (bytes.empty())
      continue;
    ActiveAccess current{number,
                         access.writes,
                         launch.places[i],
                         {bytes.front().begin, bytes.back().end},
                         {},
                         {}};
    std::map<std::vector<int64_t>, unsigned> known;
    for (auto [p, piece] : llvm::enumerate(pieces[number])) {
      std::vector<int64_t> key;
      for (const Interval &range : piece.boxes[i]) {
        key.push_back(range.begin);
        key.push_back(range.size);
      }
      auto [found, isNew] = known.try_emplace(key, current.boxes.size());
      if (isNew) {
        current.boxes.push_back(piece.boxes[i]);
        current.pieces.emplace_back();
      }
      current.pieces[found->second].push_back(p);
    }
    std::vector<ActiveAccess> &former = active[current.place.root];
    for (const ActiveAccess &other : former) {
      if ((!other.writes && !current.writes) ||
          other.bytes.begin >= current.bytes.end ||
          current.bytes.begin >= other.bytes.end)
        continue;
      llvm::DenseSet<std::pair<unsigned, unsigned>> seen;
      forEachOverlap(other.place, other.boxes, current.place, current.boxes,
                     [&](unsigned a, unsigned b) {
                       if (!seen.insert({a, b}).second)
                         return;
                       for (unsigned p : current.pieces[b])
                         for (unsigned q : other.pieces[a])
                           if (pieces[other.launch][q].core !=
                               pieces[number][p].core)
                             needed[p].insert({other.launch, q});
                     });
    }
    added.push_back(std::move(current));
    // Whoever depends on overwritten bytes depends on the piece that writes
    // them.
    if (access.writes && bytes.size() == 1)
      llvm::erase_if(former, [&](const ActiveAccess &other) {
        return other.bytes.begin >= bytes[0].begin &&
               other.bytes.end <= bytes[0].end;
      });
  }
  for (ActiveAccess &access : added)
    active[access.place.root].push_back(std::move(access));
}

void DependencyFinder::addOrders(unsigned launch, ArrayRef<Needed> needed) {
  for (auto [p, piece] : llvm::enumerate(pieces[launch])) {
    std::vector<int32_t> &known = orders[piece.core];
    SmallVector<std::pair<unsigned, unsigned>> list(needed[p].begin(),
                                                    needed[p].end());
    // The orders of late launches contain those of former ones.
    llvm::sort(list, std::greater<>());
    for (auto [other, q] : list) {
      PlacedPiece &former = pieces[other][q];
      if (known[former.core] >= int32_t(other))
        continue;
      former.releases.push_back(piece.core);
      waits.try_emplace({piece.core, other}, launch, p);
      known[former.core] = std::max(known[former.core], int32_t(other));
      if (keepsOrders)
        for (auto [mine, theirs] :
             llvm::zip_equal(known, ordersAfter[{other, q}]))
          mine = std::max(mine, theirs);
    }
  }
  for (auto [p, piece] : llvm::enumerate(pieces[launch])) {
    orders[piece.core][piece.core] = launch;
    if (keepsOrders)
      ordersAfter[{launch, p}] = orders[piece.core];
  }
}

void DependencyFinder::countReleases() {
  std::map<std::pair<unsigned, unsigned>, unsigned> counts; // (launch, core)
  for (auto [launch, list] : llvm::enumerate(pieces))
    for (PlacedPiece &piece : list) {
      llvm::sort(piece.releases);
      piece.releases.erase(llvm::unique(piece.releases), piece.releases.end());
      for (unsigned core : piece.releases)
        ++counts[{launch, core}];
    }
  for (auto [key, count] : counts) {
    auto [launch, core] = key;
    auto [waiting, piece] = waits[{core, launch}];
    pieces[waiting][piece].acquires.push_back({launch, count});
  }
}

void cores::findDependencies(ArrayRef<MappedLaunch> launches,
                             MutableArrayRef<std::vector<PlacedPiece>> pieces,
                             unsigned numCores) {
  DependencyFinder(launches, pieces, numCores).run();
}
