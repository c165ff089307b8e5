//===- Multicasts.h - Groups of cores that read equal boxes -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pieces of a launch that access the same boxes of a buffer, tile by tile,
// form a group. For each box, one of its cores, the reader, copies the box to
// its slot and sends it to the slots of the others.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_MULTICASTS_H
#define REPRO_CODEGEN_CORES_MAPPING_MULTICASTS_H

#include "Pieces.h"

#include <deque>

namespace mlir::repro::cores {

struct Stream;

struct MulticastGroup {
  SmallVector<unsigned> cores; ///< by their numbers among those of the plan
  unsigned first = 0;          ///< the position of the first box's reader
  /// The counter of a reader for the cores whose slots are free for the first
  /// box, and the counter of a core for boxes that the first core has sent.
  /// Those of further boxes and cores follow.
  int64_t freeCounter = 0, sentCounter = 0;

  /// The cores take turns, so that all DMA engines have equal work.
  unsigned getReader(unsigned box) const {
    return (first + box) % cores.size();
  }
  SmallVector<unsigned> listOthers(unsigned core) const;
};

/// Finds the groups of a launch for the accesses of `cores.multicast`. Sets the
/// groups of the streams, by piece. `counter` is the first counter that no core
/// uses. Emits an error if the attribute is wrong.
FailureOr<std::deque<MulticastGroup>>
findGroups(const MappedLaunch &launch, ArrayRef<PlacedPiece> pieces,
           MutableArrayRef<std::vector<Stream>> streams, int64_t &counter);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_MULTICASTS_H
