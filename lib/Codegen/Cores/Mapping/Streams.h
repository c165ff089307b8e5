//===- Streams.h - What the tiles of a piece access -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_STREAMS_H
#define REPRO_CODEGEN_CORES_MAPPING_STREAMS_H

#include "Homes.h"
#include "Multicasts.h"

namespace mlir::repro::cores {

/// The boxes that the tiles of a piece access one after the other, and their
/// places in the core's memory.
struct Stream {
  unsigned access;
  bool reads = false, writes = false;
  int64_t elementBytes = 0;
  SmallVector<Box> boxes;          ///< the different ones
  SmallVector<unsigned> boxOfTile; ///< the number of its box

  /// By box, if the access reads a tensor in the memories of cores.
  SmallVector<SmallVector<PartCopy>> parts;
  /// By box, if the access writes a tensor in the memories of cores: the
  /// address of the box in the piece, whose strides are those of the piece.
  SmallVector<int64_t> homes;
  SmallVector<int64_t> homeStrides; ///< in elements
  /// By box, if tiles use all boxes where they lie: the addresses.
  SmallVector<int64_t> addresses;

  /// Otherwise, the bytes of the largest box, and the addresses of the two
  /// slots that tiles use in turn, which are one if the box does not change.
  int64_t bytes = 0;
  int64_t slots[2] = {0, 0};

  /// The cores that read the same boxes, or null.
  const MulticastGroup *group = nullptr;

  bool isRemote() const { return !parts.empty(); }
  bool isDirect() const { return !addresses.empty(); }
  bool moves() const { return !isDirect() && boxes.size() > 1; }
};

/// Returns the streams of all accesses that read or write.
std::vector<Stream> listStreams(unsigned number, const MappedLaunch &launch,
                                const PlacedPiece &piece,
                                ArrayRef<SmallVector<Interval>> tiles,
                                const Homes &homes, const ManyCore &machine);

/// Sets the slots of the streams of all pieces of a launch, from byte 0 on.
/// Returns their bytes. The slots of an access are the same in all cores, so
/// that a core can send its boxes to the others.
int64_t placeSlots(MutableArrayRef<std::vector<Stream>> pieces, bool isDouble,
                   const ManyCore &machine);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_STREAMS_H
