//===- PartitionCandidates.h - Ways to cut a launch -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The partitions of a launch that the pass repro-map-partition compares, with
// the predicted times of the computation and of the transfers.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_PARTITIONCANDIDATES_H
#define REPRO_CODEGEN_CORES_MAPPING_PARTITIONCANDIDATES_H

#include "Mapping.h"

namespace mlir::repro::cores {

/// The predicted transfers of an access in one direction, for a piece.
struct AccessCost {
  double seconds = 0; ///< of all boxes, without the latency of the DRAM
  double boxes = 0;   ///< how often the box changes
  bool isDram = false;
};

/// The boxes of an access in some pieces, from which transfers between cores
/// are predicted.
struct SampledPiece {
  unsigned number; ///< of the piece
  SmallVector<Box> boxes;
  double scale = 1; ///< boxes of the piece for each sampled box
};

struct PartitionCandidate {
  SmallVector<int64_t> partition;
  PieceGrid grid;
  SmallVector<Interval> piece; ///< the largest one
  Tiling tiling;
  double numTiles = 1;
  bool isDouble = true; ///< whether transfers overlap with runs
  double compute = 0;   ///< seconds of the runs, without transfers
  double control = 0;   ///< seconds to release and to acquire the pieces
  double waiting = 0;   ///< seconds of multicasts that nothing covers
  /// By access, if the tensor lies in the DRAM.
  SmallVector<AccessCost> reads, writes;
  /// By access: the bytes of a piece in the memory of its core.
  SmallVector<int64_t> pieceBytes;
  /// The time of the launch if all tensors lie in the DRAM; infinite if no tile
  /// fits into a core.
  double seconds = 0;

  /// Returns the number of pieces to which each box of an access is sent.
  double getSharers(unsigned access) const;

  /// Returns the predicted seconds of the launch.
  double getSeconds(ArrayRef<AccessCost> reads, ArrayRef<AccessCost> writes,
                    const ManyCore &machine) const;
};

/// Returns the candidate with the given numbers of pieces along the axes, with
/// tiles whose buffers take at most `budget` bytes.
PartitionCandidate makeCandidate(const MappedLaunch &launch,
                                 ArrayRef<int64_t> partition, int64_t budget,
                                 const ManyCore &machine);

/// Returns at most `most` partitions, the fastest one first, if all tensors lie
/// in the DRAM. The others are fast ones that cut other axes.
std::vector<PartitionCandidate> listCandidates(const MappedLaunch &launch,
                                               size_t most, int64_t budget,
                                               const ManyCore &machine);

/// Returns the fastest partition if all tensors lie in the DRAM.
PartitionCandidate getFastest(const MappedLaunch &launch,
                              const ManyCore &machine);

/// Returns the bytes that the buffers of tiles may take so that the scratch
/// memory of the tiles' code takes at most a quarter of a core's memory, which
/// is the limit of the pass repro-map-tile.
FailureOr<int64_t> getTileBudget(const MappedLaunch &launch,
                                 const PartitionCandidate &candidate,
                                 const ManyCore &machine);

/// Returns the partition that cuts the outermost axis alone.
SmallVector<int64_t> cutBatch(const MappedLaunch &launch,
                              const ManyCore &machine);

/// Returns the partitions of the launch `target` for which each piece accesses
/// of a tensor what a single piece of `source` accesses, if both see the tensor
/// by views with related strides.
SmallVector<SmallVector<int64_t>>
suggestPartitions(const MappedLaunch &source, unsigned sourceAccess,
                  ArrayRef<int64_t> partition, const MappedLaunch &target,
                  unsigned targetAccess, const ManyCore &machine);

/// Returns some pieces of a candidate, with boxes of an access.
std::vector<SampledPiece> samplePieces(const MappedLaunch &launch,
                                       unsigned access,
                                       const PartitionCandidate &candidate);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_PARTITIONCANDIDATES_H
