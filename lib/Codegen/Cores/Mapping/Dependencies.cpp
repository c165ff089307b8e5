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
  std::optional<unsigned> tensor; ///< if it lies in the memories of cores
  ByteRange bytes;                ///< from the first to the last byte
  /// The different boxes of the pieces, and the pieces that have each of them.
  std::vector<Box> boxes;
  std::vector<SmallVector<unsigned>> pieces;
};

class DependencyFinder {
public:
  DependencyFinder(ArrayRef<MappedLaunch> launches,
                   MutableArrayRef<std::vector<PlacedPiece>> pieces,
                   unsigned numCores, const Homes &homes,
                   ArrayRef<int64_t> bufferBytes)
      : launches(launches), pieces(pieces), homes(homes),
        bufferBytes(bufferBytes), copies(numCores),
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
      addOverwrites(launch, needed);
      addCopies(launch);
      addOrders(launch, needed);
    }
    countReleases();
  }

private:
  /// The launches and pieces that a piece depends on.
  using Needed = llvm::SetVector<std::pair<unsigned, unsigned>>;

  void addAccesses(unsigned launch, std::vector<Needed> &needed);
  void addAccess(unsigned launch, unsigned access, bool writes,
                 std::optional<unsigned> tensor, std::vector<Needed> &needed,
                 SmallVectorImpl<ActiveAccess> &added);
  void addOverwrites(unsigned launch, std::vector<Needed> &needed);
  void addCopies(unsigned launch);
  void addOrders(unsigned launch, ArrayRef<Needed> needed);
  void countReleases();

  ArrayRef<MappedLaunch> launches;
  MutableArrayRef<std::vector<PlacedPiece>> pieces;
  const Homes &homes;
  ArrayRef<int64_t> bufferBytes; ///< of each launch
  /// By root, and by tensor if it lies in the memories of cores.
  std::map<std::pair<void *, int64_t>, std::vector<ActiveAccess>> active;
  /// A copy of a region by a piece on another core.
  struct Copy {
    ByteRange region;
    unsigned launch, piece;
  };
  std::vector<std::vector<Copy>> copies; ///< by the core that has the region
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

static std::pair<void *, int64_t> getMemory(const ActiveAccess &access) {
  return {access.place.root.getAsOpaquePointer(),
          access.tensor ? int64_t(*access.tensor) : -1};
}

void DependencyFinder::addAccess(unsigned number, unsigned i, bool writes,
                                 std::optional<unsigned> tensor,
                                 std::vector<Needed> &needed,
                                 SmallVectorImpl<ActiveAccess> &added) {
  const MappedLaunch &launch = launches[number];
  SmallVector<ByteRange> bytes = getByteRanges(
      launch.places[i], launch.tiles.getBox(i, launch.tiles.getWhole()));
  if (bytes.empty())
    return;
  ActiveAccess current{number,
                       writes,
                       launch.places[i],
                       tensor,
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
  std::vector<ActiveAccess> &former = active[getMemory(current)];
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
  // Whoever depends on overwritten bytes depends on the piece that writes them.
  if (writes && bytes.size() == 1)
    llvm::erase_if(former, [&](const ActiveAccess &other) {
      return other.bytes.begin >= bytes[0].begin &&
             other.bytes.end <= bytes[0].end;
    });
}

void DependencyFinder::addAccesses(unsigned number,
                                   std::vector<Needed> &needed) {
  SmallVector<ActiveAccess> added;
  for (auto [i, access] :
       llvm::enumerate(launches[number].tiles.getAccesses())) {
    std::optional<unsigned> read, written;
    if (access.reads)
      read = homes.getResidentRead({number, unsigned(i)});
    if (access.writes)
      written = homes.getResidentWritten({number, unsigned(i)});
    if (access.reads && (!access.writes || read != written))
      addAccess(number, i, /*writes=*/false, read, needed, added);
    if (access.writes)
      addAccess(number, i, /*writes=*/true, written, needed, added);
  }
  for (ActiveAccess &access : added)
    active[getMemory(access)].push_back(std::move(access));
}

void DependencyFinder::addOverwrites(unsigned number,
                                     std::vector<Needed> &needed) {
  SmallVector<ByteRange> ranges = {{0, bufferBytes[number]}};
  for (unsigned i = 0; i < launches[number].places.size(); ++i)
    if (const HomeRegion *region = homes.getWrittenRegion({number, i}))
      ranges.push_back({region->address, region->address + region->bytes});
  for (auto [p, piece] : llvm::enumerate(pieces[number]))
    llvm::erase_if(copies[piece.core], [&](const Copy &copy) {
      bool isOverwritten = llvm::any_of(ranges, [&](ByteRange range) {
        return copy.region.begin < range.end && range.begin < copy.region.end;
      });
      if (isOverwritten)
        needed[p].insert({copy.launch, copy.piece});
      return isOverwritten;
    });
}

void DependencyFinder::addCopies(unsigned number) {
  for (unsigned i = 0; i < launches[number].places.size(); ++i) {
    if (!homes.getResidentRead({number, i}))
      continue;
    for (auto [p, piece] : llvm::enumerate(pieces[number]))
      for (const PartCopy &part : homes.listParts({number, i}, piece.boxes[i]))
        if (part.core != piece.core)
          copies[part.core].push_back({part.region, number, unsigned(p)});
  }
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
                             unsigned numCores, const Homes &homes,
                             ArrayRef<int64_t> bufferBytes) {
  DependencyFinder(launches, pieces, numCores, homes, bufferBytes).run();
}
