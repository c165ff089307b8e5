//===- Homes.h - Tensors in the memories of cores ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor of the arena lies in the DRAM, or in the memories of the cores that
// compute it: then each piece stays at a static address in its core, from the
// launch that writes it to the last launch that uses the tensor. Other cores
// copy the parts that they need.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_HOMES_H
#define REPRO_CODEGEN_CORES_MAPPING_HOMES_H

#include "Pieces.h"
#include "Tensors.h"

namespace mlir::repro::cores {

/// The pieces that one use writes to a tensor, in the memories of cores.
struct HomeRegion {
  int64_t address = -1; ///< in each core that has a piece; -1 in the DRAM
  int64_t bytes = 0;    ///< of the largest piece
  unsigned first, last; ///< the launches between which the region exists

  bool isResident() const { return address >= 0; }
  bool coexists(const HomeRegion &other) const {
    return first <= other.last && other.first <= last;
  }
};

/// The part of a box that one core has.
struct PartCopy {
  unsigned core;
  int64_t source; ///< the first byte in the memory of the core
  int64_t target; ///< the first byte in a memory with the box alone
  /// The elements of both parts, with the strides of each.
  SmallVector<int64_t> extents, sourceStrides, targetStrides;
  ByteRange region; ///< that has the part

  int64_t getRowBytes(int64_t elementBytes) const;
  int64_t getBytes(int64_t elementBytes) const;
};

/// A part of a piece of a tensor, in the coordinates of its digits.
struct HomePart {
  unsigned core; ///< the number of the core that has the piece
  Box digits;
  DigitView::Layout layout;
};

/// Appends the parts of a piece, which is the box `box` of `view`.
void appendParts(const Tensor &tensor, const Place &view,
                 ArrayRef<Interval> box, unsigned core,
                 std::vector<HomePart> &parts);

/// Returns the parts of a box of `view` that a launch reads of a tensor.
/// `getParts` returns the parts of a writer's pieces, and `regions` has the
/// region of each writer.
SmallVector<PartCopy>
listPartCopies(const Tensor &tensor, unsigned launch, const Place &view,
               ArrayRef<Interval> box, ArrayRef<HomeRegion> regions,
               function_ref<ArrayRef<HomePart>(unsigned)> getParts);

/// Returns the lowest address that a home may have. The error words that cores
/// check lie below this address.
int64_t getLeastHome(size_t numCores);

class Homes {
public:
  /// `pieces` contains the pieces of each launch.
  Homes(ArrayRef<MappedLaunch> launches,
        ArrayRef<std::vector<PlacedPiece>> pieces, Value arena,
        const ManyCore &machine);

  const TensorMap &getTensors() const { return tensors; }
  /// The regions of a tensor, by writer.
  MutableArrayRef<HomeRegion> getRegions(unsigned tensor) {
    return regions[tensor];
  }

  /// Sets the regions from the attributes `cores.home` of the launches. Emits
  /// an error if they do not fit between `least` and `most`.
  LogicalResult readAttributes(int64_t least, int64_t most);

  /// The tensor in the memories of cores that an access reads or writes.
  std::optional<unsigned> getResidentRead(TensorUse use) const;
  std::optional<unsigned> getResidentWritten(TensorUse use) const;
  /// The region that an access writes, or null.
  const HomeRegion *getWrittenRegion(TensorUse use) const;
  /// Returns the lowest address of the regions that exist during a launch.
  int64_t getLowest(unsigned launch, int64_t most) const;

  /// Returns the parts of a box that an access reads of a tensor. The regions
  /// do not need to have addresses.
  SmallVector<PartCopy> listParts(TensorUse use, ArrayRef<Interval> box) const;

private:
  ArrayRef<HomePart> getParts(unsigned tensor, unsigned writer) const;

  ArrayRef<MappedLaunch> launches;
  ArrayRef<std::vector<PlacedPiece>> pieces;
  TensorMap tensors;
  std::vector<SmallVector<HomeRegion>> regions;
  mutable DenseMap<std::pair<unsigned, unsigned>, std::vector<HomePart>> parts;
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_HOMES_H
