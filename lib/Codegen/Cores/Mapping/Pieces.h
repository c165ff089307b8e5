//===- Pieces.h - The pieces of launches on their cores ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_PIECES_H
#define REPRO_CODEGEN_CORES_MAPPING_PIECES_H

#include "Mapping.h"

namespace mlir::repro::cores {

/// A piece of a launch on a core.
struct PlacedPiece {
  unsigned core; ///< its number among the cores that the plan uses
  SmallVector<Interval> range;
  SmallVector<Box> boxes; ///< of each access

  /// The cores that wait for this piece.
  SmallVector<unsigned> releases;
  /// The launches for which the piece waits, and the number of their pieces
  /// that release this core.
  SmallVector<std::pair<unsigned, unsigned>> acquires;
};

struct PlacedPieces {
  std::vector<std::vector<PlacedPiece>> ofLaunch;
  SmallVector<ManyCore::Point> cores; ///< those that the plan uses
};

/// Returns the pieces that the attributes `cores.partition` and `cores.place`
/// of the launches describe. Emits an error if one of them is wrong.
FailureOr<PlacedPieces> placePieces(ArrayRef<MappedLaunch> launches,
                                    const ManyCore &machine);

/// Returns the attribute `cores.tile` of a launch.
FailureOr<ArrayRef<int64_t>> getTileSizes(const MappedLaunch &launch);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_PIECES_H
