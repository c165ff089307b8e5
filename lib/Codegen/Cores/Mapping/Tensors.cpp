//===- Tensors.cpp - The contents of the arena ----------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tensors.h"

#include <map>
#include <set>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

unsigned Tensor::getLast() const {
  unsigned last = writers.back().launch;
  return readers.empty() ? last : std::max(last, readers.back().launch);
}

namespace {
/// The tensor that each byte of the arena belongs to.
class Owners {
public:
  /// No tensor, or several ones, so that the bytes stay in the arena.
  static constexpr int none = -1;

  explicit Owners(int64_t bytes) { starts[0] = starts[bytes] = none; }

  std::set<int> get(ByteRange bytes) const {
    std::set<int> owners;
    for (auto at = std::prev(starts.upper_bound(bytes.begin));
         at != starts.end() && at->first < bytes.end; ++at)
      owners.insert(at->second);
    return owners;
  }

  void set(ByteRange bytes, int owner) {
    auto split = [&](int64_t at) {
      starts.try_emplace(at, std::prev(starts.upper_bound(at))->second);
    };
    split(bytes.begin);
    split(bytes.end);
    starts.erase(starts.find(bytes.begin), starts.find(bytes.end));
    starts[bytes.begin] = owner;
  }

private:
  std::map<int64_t, int> starts;
};
} // namespace

TensorMap::TensorMap(ArrayRef<MappedLaunch> launches, Value arena) {
  Owners owners(cast<MemRefType>(arena.getType()).getDimSize(0));
  std::vector<bool> isWhole; // by tensor: whether all uses are known
  auto keepInArena = [&](const std::set<int> &found) {
    for (int tensor : found)
      if (tensor != Owners::none)
        isWhole[tensor] = false;
  };
  // Calls `visit` with the bytes of each access to the arena.
  auto forEach = [&](unsigned number, bool KernelAccess::*kind, auto visit) {
    const MappedLaunch &launch = launches[number];
    SmallVector<Interval> whole = launch.tiles.getWhole();
    for (auto [i, access] : llvm::enumerate(launch.tiles.getAccesses())) {
      if (!(access.*kind) || launch.places[i].root != arena)
        continue;
      SmallVector<ByteRange> ranges =
          getByteRanges(launch.places[i], launch.tiles.getBox(i, whole));
      if (!ranges.empty())
        visit(i, ByteRange{ranges.front().begin, ranges.back().end},
              ranges.size() == 1);
    }
  };
  for (unsigned number = 0; number < launches.size(); ++number) {
    forEach(number, &KernelAccess::reads,
            [&](unsigned access, ByteRange bytes, bool) {
              std::set<int> found = owners.get(bytes);
              if (found.size() > 1 || *found.begin() == Owners::none)
                return keepInArena(found);
              reads[{number, access}] = *found.begin();
              tensors[*found.begin()].readers.push_back({number, access});
            });
    forEach(number, &KernelAccess::writes,
            [&](unsigned access, ByteRange bytes, bool isDense) {
              if (isDense) {
                writes[{number, access}] = tensors.size();
                owners.set(bytes, tensors.size());
                tensors.push_back(
                    {bytes.begin, bytes.end, {{number, access}}, {}, {}});
                isWhole.push_back(true);
                return;
              }
              std::set<int> found = owners.get(bytes);
              if (found.size() > 1 || *found.begin() == Owners::none) {
                keepInArena(found);
                return owners.set(bytes, Owners::none);
              }
              writes[{number, access}] = *found.begin();
              tensors[*found.begin()].writers.push_back({number, access});
            });
  }
  for (auto [tensor, hasAllUses] : llvm::zip_equal(tensors, isWhole)) {
    if (!hasAllUses || tensor.readers.empty())
      continue;
    SmallVector<Place> views;
    for (ArrayRef<TensorUse> uses : {tensor.writers, tensor.readers})
      for (TensorUse use : uses)
        views.push_back(launches[use.launch].places[use.access]);
    tensor.digits = Digits::get(tensor.begin, views);
    for (const Place &view : views)
      if (tensor.digits && !DigitView::get(*tensor.digits, view))
        tensor.digits.reset();
  }
}
