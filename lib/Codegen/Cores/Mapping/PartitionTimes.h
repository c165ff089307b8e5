//===- PartitionTimes.h - The time of launches by partition -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Predicts the time of each launch of a plan from its partition, from those of
// the launches whose tensors it reads, and from the tensors that stay in the
// memories of cores.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_PARTITIONTIMES_H
#define REPRO_CODEGEN_CORES_MAPPING_PARTITIONTIMES_H

#include "Homes.h"
#include "PartitionCandidates.h"

#include "llvm/ADT/BitVector.h"

#include <deque>
#include <map>

namespace mlir::repro::cores {

/// The partitions of the launches of one kernel.
struct KernelPartitions {
  std::deque<PartitionCandidate> candidates;
  std::map<std::vector<int64_t>, std::optional<unsigned>> numbers;
  unsigned numCompared = 0; ///< of the candidates, for all partitions of others
  int64_t budget = 0;       ///< bytes of the buffers of a tile
};

/// The choices for the first launches, or for all.
struct PartitionChoices {
  double seconds = 0;            ///< the sum of the times of the launches
  std::vector<uint16_t> choices; ///< the number of the candidate, by launch
  llvm::BitVector resident;      ///< the tensors in the memories of cores
};

class PartitionTimes {
public:
  PartitionTimes(ArrayRef<MappedLaunch> launches, Value arena,
                 const ManyCore &machine);

  /// Whether the constructor has emitted an error.
  bool hasFailed() const { return isWrong; }
  ArrayRef<MappedLaunch> getLaunches() const { return launches; }
  const TensorMap &getTensors() const { return tensors; }
  const KernelPartitions &getPartitions(unsigned launch) const {
    return *ofLaunch[launch];
  }
  /// The tensors that exist during a launch and may stay in cores.
  ArrayRef<unsigned> getLive(unsigned launch) const { return live[launch]; }
  /// Whether a launch is the first one that writes a tensor.
  bool begins(unsigned tensor, unsigned launch) const {
    return tensors.tensors[tensor].writers.front().launch == launch;
  }

  /// Returns the candidates of a launch that are compared if others have the
  /// given choices: also those that find single pieces of their inputs.
  SmallVector<unsigned> listChoices(unsigned launch,
                                    const PartitionChoices &others);
  /// Returns the predicted seconds of a launch with a candidate.
  double getSeconds(unsigned launch, unsigned candidate,
                    const PartitionChoices &others);
  /// Returns the bytes of a core that the buffers of tiles and the tensors take
  /// during a launch.
  int64_t getUsedBytes(unsigned launch, unsigned candidate,
                       const PartitionChoices &others) const;
  /// Returns the bytes of a core that a piece of a written tensor takes.
  int64_t getRegionBytes(TensorUse writer, unsigned candidate) const;

private:
  std::optional<unsigned> addCandidate(unsigned launch,
                                       ArrayRef<int64_t> partition);
  void addSuggestions(unsigned launch);
  AccessCost getReadCost(TensorUse use, unsigned candidate, unsigned tensor,
                         const PartitionChoices &others);
  AccessCost predictRead(TensorUse use, unsigned candidate,
                         const Tensor &tensor, ArrayRef<unsigned> choices);
  AccessCost getWriteCost(TensorUse use, unsigned candidate);
  ArrayRef<HomePart> getParts(const Tensor &tensor, TensorUse writer,
                              unsigned candidate);

  ArrayRef<MappedLaunch> launches;
  const ManyCore &machine;
  TensorMap tensors;
  std::map<std::pair<Operation *, size_t>, KernelPartitions> kernels;
  SmallVector<KernelPartitions *> ofLaunch;
  bool isWrong = false;
  std::vector<SmallVector<unsigned>> live; ///< by launch

  // The values that have been computed, by access and candidates.
  std::map<std::tuple<KernelPartitions *, unsigned, unsigned>,
           std::vector<SampledPiece>>
      samples;
  std::map<std::tuple<unsigned, unsigned, unsigned>, std::vector<HomePart>>
      parts;
  std::map<std::tuple<unsigned, unsigned, unsigned, std::vector<unsigned>>,
           AccessCost>
      reads;
  std::map<std::tuple<KernelPartitions *, unsigned, unsigned>, AccessCost>
      writes;
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_PARTITIONTIMES_H
