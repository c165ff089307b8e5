//===- MapPartition.cpp - Cut launches into pieces ------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-map-partition (Passes.td): chooses for each launch into how many
// pieces each axis of its kernel is cut.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Mapping/Passes.h"
#include "Mapping.h"

#include "llvm/Support/MathExtras.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROMAPPARTITION
#include "lib/Codegen/Cores/Mapping/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

/// The number of partitions, those with the least bounds, whose tiles are
/// compared at most.
static constexpr size_t kMostCompared = 256;

namespace {
struct MapPartition : public repro::impl::ReproMapPartitionBase<MapPartition> {
  using ReproMapPartitionBase::ReproMapPartitionBase;
  void runOnOperation() override;
};

struct Candidate {
  SmallVector<int64_t> partition;
  int64_t pieces;
  double bound; ///< of the seconds
};
} // namespace

/// Returns the numbers of pieces of at most `most` into which an extent can be
/// cut so that each number gives other sizes.
static SmallVector<int64_t> listCounts(int64_t extent, int64_t most) {
  SmallVector<int64_t> counts;
  for (int64_t count = 1; count <= std::min(extent, most); ++count) {
    int64_t size = llvm::divideCeil(extent, count);
    if (int64_t(llvm::divideCeil(extent, size)) == count)
      counts.push_back(count);
  }
  if (counts.empty())
    counts.push_back(1);
  return counts;
}

/// Returns a lower bound of the seconds of a launch: that of the computation of
/// the largest piece, of the DRAM, and of the network.
static double getBound(const MappedLaunch &launch, const KernelCost &cost,
                       ArrayRef<int64_t> partition, int64_t pieces,
                       const ManyCore &machine) {
  SmallVector<Interval> piece = launch.getLargestPiece(partition);
  PieceGrid grid = launch.getGrid(partition, machine);
  double bytes = 0, fromDram = 0; // of a piece
  for (auto [i, access] : llvm::enumerate(launch.tiles.getAccesses())) {
    double moved = getTransferBytes(launch, i, piece, machine) *
                   ((access.reads ? 1 : 0) + (access.writes ? 1 : 0));
    bytes += moved;
    fromDram += moved / double(grid.sharers[i]);
  }
  double link = machine.linkBytesPerCycle * machine.clockHz;
  double compute = cost.getCycles(piece) / machine.clockHz;
  double dram = fromDram * double(pieces) / getDramBytesPerSecond(machine);
  double channels = double(std::max<size_t>(machine.channels.size(), 1)) *
                    double(machine.getChips());
  double network =
      std::max(bytes / link, fromDram * double(pieces) / channels / link);
  // Each further core has to be released and waited for.
  double control = double(pieces) *
                   (machine.releaseCycles + machine.acquireCycles) /
                   machine.clockHz;
  return std::max({compute, dram, network}) + control;
}

/// Cuts the outermost loop alone.
static SmallVector<int64_t> cutBatch(const MappedLaunch &launch,
                                     const ManyCore &machine) {
  SmallVector<int64_t> partition(launch.tiles.getAxes().size(), 1);
  if (!partition.empty())
    partition.front() =
        listCounts(launch.tiles.getExtents()[launch.tiles.getAxes().front()],
                   machine.getCores())
            .back();
  return partition;
}

PartitionChoice cores::choosePartition(const MappedLaunch &launch,
                                       const ManyCore &machine) {
  int64_t numCores = machine.getCores();
  KernelCost cost(launch.tiles, machine);
  std::vector<Candidate> candidates = {{{}, 1, 0}};
  for (unsigned loop : launch.tiles.getAxes()) {
    std::vector<Candidate> next;
    for (const Candidate &candidate : candidates)
      for (int64_t count : listCounts(launch.tiles.getExtents()[loop],
                                      numCores / candidate.pieces)) {
        next.push_back(candidate);
        next.back().partition.push_back(count);
        next.back().pieces *= count;
      }
    candidates = std::move(next);
  }
  if (launch.isEmpty())
    return {candidates.front().partition, 0};
  for (Candidate &candidate : candidates)
    candidate.bound =
        getBound(launch, cost, candidate.partition, candidate.pieces, machine);
  llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
    return a.bound < b.bound;
  });
  candidates.resize(std::min(candidates.size(), kMostCompared));
  const Candidate *best = nullptr;
  double seconds = 0;
  for (const Candidate &candidate : candidates) {
    if (best && candidate.bound >= seconds)
      break;
    Tiling tiling =
        chooseTiling(launch, launch.getLargestPiece(candidate.partition),
                     launch.getGrid(candidate.partition, machine),
                     getUsableBytes(machine), machine);
    double time = std::max(candidate.bound, tiling.seconds);
    if (tiling.bytes > getUsableBytes(machine))
      time = std::numeric_limits<double>::infinity();
    if (!best || time < seconds) {
      best = &candidate;
      seconds = time;
    }
  }
  return {best->partition, seconds};
}

void MapPartition::runOnOperation() {
  FailureOr<MappingInput> input = readMappingInput(getOperation(), machine);
  if (failed(input))
    return signalPassFailure();
  if (strategy != "time" && strategy != "batch") {
    getOperation().emitError(
        "expected strategy=time or strategy=batch, got strategy=")
        << strategy;
    return signalPassFailure();
  }
  // The axes of a kernel differ between launches if one of them is in conflict
  // with itself.
  DenseMap<std::pair<Operation *, size_t>, SmallVector<int64_t>> known;
  Builder builder(&getContext());
  for (const MappedLaunch &launch : input->launches) {
    auto [found, isNew] = known.try_emplace(
        {launch.tiles.getKernel(), launch.tiles.getAxes().size()});
    if (isNew)
      found->second = strategy == "batch"
                          ? cutBatch(launch, input->machine)
                          : choosePartition(launch, input->machine).partition;
    launch.dispatch->setAttr(CoresDialect::PartitionAttrHelper::getNameStr(),
                             builder.getDenseI64ArrayAttr(found->second));
  }
}
