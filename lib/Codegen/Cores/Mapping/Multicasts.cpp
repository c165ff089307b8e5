//===- Multicasts.cpp - Groups of cores that read equal boxes -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Multicasts.h"

#include "Streams.h"

#include <map>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

SmallVector<unsigned> MulticastGroup::listOthers(unsigned core) const {
  SmallVector<unsigned> others;
  for (unsigned member : cores)
    if (member != core)
      others.push_back(member);
  return others;
}

/// Returns numbers that are equal if two streams of a launch have the same
/// boxes, tile by tile.
static std::vector<int64_t> getKey(const Stream &stream) {
  std::vector<int64_t> key = {int64_t(stream.boxOfTile.size())};
  llvm::append_range(key, stream.boxOfTile);
  for (const Box &box : stream.boxes)
    for (const Interval &range : box)
      key.insert(key.end(), {range.begin, range.size});
  return key;
}

/// Returns how often the box of a stream changes, the first box included.
static int64_t countBoxes(const Stream &stream) {
  int64_t count = 1;
  for (size_t tile = 1; tile < stream.boxOfTile.size(); ++tile)
    count += stream.boxOfTile[tile] != stream.boxOfTile[tile - 1];
  return count;
}

FailureOr<std::deque<MulticastGroup>>
cores::findGroups(const MappedLaunch &launch, ArrayRef<PlacedPiece> pieces,
                  MutableArrayRef<std::vector<Stream>> streams,
                  int64_t &counter) {
  FailureOr<ArrayRef<int64_t>> accesses = getMulticasts(launch);
  if (failed(accesses))
    return failure();
  std::deque<MulticastGroup> groups;
  for (int64_t access : *accesses) {
    // The pieces, by the boxes that they read. A core that uses the boxes where
    // they lie needs no transfer.
    std::map<std::vector<int64_t>, SmallVector<unsigned>> sharers;
    for (auto [p, list] : llvm::enumerate(streams))
      if (!list[access].isDirect() && list[access].bytes > 0)
        sharers[getKey(list[access])].push_back(p);
    // A core has at most one group for an access, so the groups have the same
    // counters.
    int64_t mostBoxes = 0, mostCores = 0;
    for (const auto &[key, members] : sharers) {
      mostBoxes =
          std::max(mostBoxes, countBoxes(streams[members.front()][access]));
      mostCores = std::max(mostCores, int64_t(members.size()));
    }
    for (const auto &[key, members] : sharers) {
      if (members.size() == 1)
        continue;
      MulticastGroup &group = groups.emplace_back();
      // Groups of a row and of a column of the grid begin at different cores.
      group.first = (groups.size() + size_t(access)) % members.size();
      group.freeCounter = counter;
      group.sentCounter = counter + mostBoxes;
      for (unsigned p : members) {
        group.cores.push_back(pieces[p].core);
        streams[p][access].group = &group;
      }
    }
    counter += mostBoxes + mostCores;
  }
  return groups;
}
