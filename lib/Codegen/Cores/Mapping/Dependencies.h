//===- Dependencies.h - What pieces wait for --------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_DEPENDENCIES_H
#define REPRO_CODEGEN_CORES_MAPPING_DEPENDENCIES_H

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

/// Sets the releases and acquires of all pieces: a piece waits for the pieces
/// of former launches on other cores that write bytes which it accesses, or
/// access bytes that it writes. A core waits for all releases of a launch to it
/// at the same time, before its first piece that needs one of them. An order
/// that follows from others is not made again. Since pieces only wait for
/// former launches, no cycle exists.
void findDependencies(ArrayRef<MappedLaunch> launches,
                      MutableArrayRef<std::vector<PlacedPiece>> pieces,
                      unsigned numCores);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_DEPENDENCIES_H
