//===- Streams.cpp - What the tiles of a piece access ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Streams.h"

#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

static SmallVector<int64_t> getRowMajorStrides(ArrayRef<Interval> box) {
  SmallVector<int64_t> strides(box.size());
  int64_t row = 1;
  for (int64_t dim = box.size() - 1; dim >= 0; --dim) {
    strides[dim] = row;
    row *= box[dim].size;
  }
  return strides;
}

/// Sets where the boxes of a stream lie in the piece that it writes.
static void setHomes(Stream &stream, const HomeRegion &region,
                     ArrayRef<Interval> piece) {
  stream.homeStrides = getRowMajorStrides(piece);
  for (ArrayRef<Interval> box : stream.boxes) {
    int64_t offset = 0;
    for (auto [range, whole, stride] :
         llvm::zip_equal(box, piece, stream.homeStrides))
      offset += (range.begin - whole.begin) * stride;
    stream.homes.push_back(region.address + offset * stream.elementBytes);
  }
}

/// Whether the elements of a box follow each other in the piece.
static bool isContiguous(ArrayRef<Interval> box,
                         ArrayRef<int64_t> pieceStrides) {
  return llvm::all_of(
      llvm::zip_equal(box, getRowMajorStrides(box), pieceStrides),
      [](auto each) {
        auto [range, own, stride] = each;
        return range.size == 1 || own == stride;
      });
}

/// Sets the addresses if tiles can use all boxes where they lie.
static void setAddresses(Stream &stream, unsigned core, int64_t alignment) {
  SmallVector<int64_t> addresses;
  for (auto [i, box] : llvm::enumerate(stream.boxes)) {
    if (stream.writes && !stream.homes.empty()) {
      if (!isContiguous(box, stream.homeStrides))
        return;
      addresses.push_back(stream.homes[i]);
    } else if (!stream.writes && stream.isRemote()) {
      ArrayRef<PartCopy> parts = stream.parts[i];
      if (parts.size() != 1 || parts[0].core != core ||
          parts[0].getRowBytes(stream.elementBytes) !=
              getNumElements(box) * stream.elementBytes)
        return;
      addresses.push_back(parts[0].source);
    } else {
      return;
    }
    if (addresses.back() % alignment)
      return;
  }
  stream.addresses = std::move(addresses);
}

std::vector<Stream> cores::listStreams(unsigned number,
                                       const MappedLaunch &launch,
                                       const PlacedPiece &piece,
                                       ArrayRef<SmallVector<Interval>> tiles,
                                       const Homes &homes,
                                       const ManyCore &machine) {
  std::vector<Stream> streams;
  for (auto [i, access] : llvm::enumerate(launch.tiles.getAccesses())) {
    Stream &stream = streams.emplace_back();
    TensorUse use{number, unsigned(i)};
    stream.access = i;
    stream.reads = access.reads;
    stream.writes = access.writes;
    stream.elementBytes =
        launch::getElementBytes(launch.places[i].type.getElementType());
    std::map<std::vector<int64_t>, unsigned> known;
    for (ArrayRef<Interval> tile : tiles) {
      Box box = launch.tiles.getBox(i, tile);
      // A buffer without accesses only gives a window its shape.
      std::vector<int64_t> key;
      if (access.reads || access.writes)
        for (const Interval &range : box)
          key.insert(key.end(), {range.begin, range.size});
      auto [found, isNew] = known.try_emplace(key, stream.boxes.size());
      stream.boxOfTile.push_back(found->second);
      if (!isNew)
        continue;
      stream.bytes =
          std::max(stream.bytes, getNumElements(box) * stream.elementBytes);
      stream.boxes.push_back(std::move(box));
    }
    if (access.reads && homes.getResidentRead(use))
      for (ArrayRef<Interval> box : stream.boxes)
        stream.parts.push_back(homes.listParts(use, box));
    if (const HomeRegion *region = homes.getWrittenRegion(use))
      setHomes(stream, *region, piece.boxes[i]);
    setAddresses(stream, piece.core, getLocalAlignment(machine));
  }
  return streams;
}

int64_t cores::placeSlots(MutableArrayRef<std::vector<Stream>> pieces,
                          bool isDouble, const ManyCore &machine) {
  struct Slots {
    int64_t bytes = 0;
    bool exists = false, moves = false;
    int64_t offsets[2] = {0, 0};
  };
  std::vector<Slots> slots; // by access
  for (ArrayRef<Stream> streams : pieces) {
    slots.resize(std::max(slots.size(), streams.size()));
    for (auto [own, stream] : llvm::zip(slots, streams)) {
      if (stream.isDirect())
        continue;
      own.exists = true;
      own.moves |= stream.moves();
      own.bytes = std::max(own.bytes, stream.bytes);
    }
  }
  int64_t end = 0;
  for (Slots &own : slots) {
    if (!own.exists)
      continue;
    int64_t bytes = llvm::alignTo(own.bytes, getLocalAlignment(machine));
    own.offsets[0] = own.offsets[1] = end;
    end += bytes;
    if (isDouble && own.moves) {
      own.offsets[1] = end;
      end += bytes;
    }
  }
  for (MutableArrayRef<Stream> streams : pieces)
    for (auto [own, stream] : llvm::zip(slots, streams))
      llvm::copy(own.offsets, stream.slots);
  return end;
}
