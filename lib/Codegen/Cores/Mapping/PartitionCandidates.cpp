//===- PartitionCandidates.cpp - Ways to cut a launch ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionCandidates.h"

#include "Codegen/Schedule/Buffers/Kernel.h"

#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

/// The number of partitions, those with the least bounds, whose tiles are
/// compared at most.
static constexpr size_t kMostCompared = 256;

/// Candidates that need more than this multiple of the least time are dropped.
static constexpr double kMostSlower = 2;

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

static double getControlSeconds(int64_t pieces, const ManyCore &machine) {
  return double(pieces) * (machine.releaseCycles + machine.acquireCycles) /
         machine.clockHz;
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
  return std::max({compute, dram, network}) +
         getControlSeconds(pieces, machine);
}

/// Returns how often the box of an access changes, the first box included.
static double countBoxes(const MappedLaunch &launch, unsigned access,
                         const PartitionCandidate &candidate) {
  double boxes = 1, product = 1;
  for (auto [loop, size] :
       llvm::zip_equal(launch.tiles.getAxes(), candidate.tiling.sizes)) {
    int64_t count = llvm::divideCeil(candidate.piece[loop].size, size);
    product *= double(count);
    if (count > 1 && launch.tiles.getAccesses()[access].dependsOn(loop))
      boxes = product;
  }
  return boxes;
}

double PartitionCandidate::getSeconds(ArrayRef<AccessCost> reads,
                                      ArrayRef<AccessCost> writes,
                                      const ManyCore &machine) const {
  double in = 0, out = 0, all = 0; // of the first inputs, of the last outputs
  bool readsDram = false, writesDram = false;
  for (const AccessCost &each : reads) {
    all += each.seconds;
    in += each.boxes > 0 ? each.seconds / each.boxes : 0;
    readsDram |= each.isDram;
  }
  for (const AccessCost &each : writes) {
    all += each.seconds;
    out += each.boxes > 0 ? each.seconds / each.boxes : 0;
    writesDram |= each.isDram;
  }
  double latency = machine.channels.front().latencySeconds;
  double transfer = all + (readsDram || writesDram ? numTiles * latency : 0);
  double time = isDouble && numTiles > 1
                    ? in + out + std::max(compute, transfer)
                    : compute + transfer;
  time += (readsDram ? latency : 0) + waiting;
  return std::max(time, compute + control);
}

double PartitionCandidate::getSharers(unsigned access) const {
  bool isShared = llvm::is_contained(tiling.multicasts, int64_t(access));
  return isShared ? double(grid.sharers[access]) : 1;
}

PartitionCandidate cores::makeCandidate(const MappedLaunch &launch,
                                        ArrayRef<int64_t> partition,
                                        int64_t budget,
                                        const ManyCore &machine) {
  PartitionCandidate candidate;
  candidate.partition.assign(partition.begin(), partition.end());
  candidate.grid = launch.getGrid(partition, machine);
  int64_t numPieces = candidate.grid.numPieces;
  candidate.piece = launch.getLargestPiece(partition);
  candidate.tiling =
      chooseTiling(launch, candidate.piece, candidate.grid, budget, machine);
  ArrayRef<int64_t> sizes = candidate.tiling.sizes;
  candidate.isDouble =
      getBufferBytes(launch, candidate.piece, sizes,
                     /*isDouble=*/true, machine) <= getUsableBytes(machine);
  SmallVector<Interval> tile(candidate.piece);
  for (auto [loop, size] : llvm::zip_equal(launch.tiles.getAxes(), sizes)) {
    candidate.numTiles *= double(llvm::divideCeil(tile[loop].size, size));
    tile[loop].size = std::min(tile[loop].size, size);
  }
  KernelCost cost(launch.tiles, machine);
  candidate.compute = candidate.numTiles *
                      (cost.getCycles(tile) + machine.runCycles) /
                      machine.clockHz;
  candidate.control = getControlSeconds(numPieces, machine);
  double link = machine.linkBytesPerCycle * machine.clockHz;
  double share = getDramBytesPerSecond(machine) / double(numPieces);
  for (auto [i, access] : llvm::enumerate(launch.tiles.getAccesses())) {
    AccessCost dram;
    dram.boxes = countBoxes(launch, i, candidate);
    dram.isDram = true;
    double bandwidth = std::min(link, share * candidate.getSharers(i));
    dram.seconds =
        getPieceBytes(launch, i, candidate.piece, sizes, machine) / bandwidth +
        dram.boxes * machine.dmaSetupCycles / machine.clockHz;
    candidate.reads.push_back(access.reads ? dram : AccessCost());
    candidate.writes.push_back(access.writes ? dram : AccessCost());
    candidate.pieceBytes.push_back(
        llvm::alignTo(getBoxBytes(launch.tiles, i, candidate.piece),
                      getLocalAlignment(machine)));
  }
  candidate.waiting =
      std::max(0.0, candidate.tiling.seconds -
                        candidate.getSeconds(candidate.reads, candidate.writes,
                                             machine));
  candidate.seconds =
      std::max(candidate.tiling.seconds,
               getBound(launch, cost, partition, numPieces, machine));
  if (candidate.tiling.bytes > getUsableBytes(machine))
    candidate.seconds = std::numeric_limits<double>::infinity();
  return candidate;
}

SmallVector<int64_t> cores::cutBatch(const MappedLaunch &launch,
                                     const ManyCore &machine) {
  SmallVector<int64_t> partition(launch.tiles.getAxes().size(), 1);
  if (!partition.empty())
    partition.front() =
        listCounts(launch.tiles.getExtents()[launch.tiles.getAxes().front()],
                   machine.getCores())
            .back();
  return partition;
}

std::vector<PartitionCandidate>
cores::listCandidates(const MappedLaunch &launch, size_t most, int64_t budget,
                      const ManyCore &machine) {
  struct Bounded {
    SmallVector<int64_t> partition;
    int64_t pieces;
    double bound; ///< of the seconds
  };
  int64_t numCores = machine.getCores();
  KernelCost cost(launch.tiles, machine);
  std::vector<Bounded> bounded = {{{}, 1, 0}};
  for (unsigned loop : launch.tiles.getAxes()) {
    std::vector<Bounded> next;
    for (const Bounded &each : bounded)
      for (int64_t count : listCounts(launch.tiles.getExtents()[loop],
                                      numCores / each.pieces)) {
        next.push_back(each);
        next.back().partition.push_back(count);
        next.back().pieces *= count;
      }
    bounded = std::move(next);
  }
  if (launch.isEmpty()) {
    PartitionCandidate only;
    only.partition = bounded.front().partition;
    return {only};
  }
  for (Bounded &each : bounded)
    each.bound = getBound(launch, cost, each.partition, each.pieces, machine);
  llvm::stable_sort(bounded, [](const Bounded &a, const Bounded &b) {
    return a.bound < b.bound;
  });
  bounded.resize(std::min(bounded.size(), kMostCompared));

  std::vector<PartitionCandidate> found;
  double least = std::numeric_limits<double>::infinity();
  for (const Bounded &each : bounded) {
    if (each.bound >= (most > 1 ? kMostSlower : 1) * least)
      break;
    found.push_back(makeCandidate(launch, each.partition, budget, machine));
    least = std::min(least, found.back().seconds);
  }
  auto isFaster = [](const PartitionCandidate &a, const PartitionCandidate &b) {
    return a.seconds < b.seconds;
  };
  llvm::stable_sort(found, isFaster);
  // The fastest ones of each set of axes that are cut, in turn.
  std::map<std::vector<bool>, unsigned> ranks;
  std::vector<std::pair<unsigned, size_t>> order;
  for (auto [i, candidate] : llvm::enumerate(found)) {
    if (candidate.seconds > kMostSlower * least)
      break;
    std::vector<bool> axes;
    for (int64_t count : candidate.partition)
      axes.push_back(count > 1);
    order.push_back({ranks[axes]++, i});
  }
  llvm::stable_sort(
      order, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<PartitionCandidate> kept;
  for (auto [rank, i] : order)
    if (kept.size() < most)
      kept.push_back(std::move(found[i]));
  return kept;
}

PartitionCandidate cores::getFastest(const MappedLaunch &launch,
                                     const ManyCore &machine) {
  return std::move(
      listCandidates(launch, 1, getUsableBytes(machine), machine).front());
}

FailureOr<int64_t> cores::getTileBudget(const MappedLaunch &launch,
                                        const PartitionCandidate &candidate,
                                        const ManyCore &machine) {
  int64_t usable = getUsableBytes(machine), budget = usable;
  // The scratch memory holds at most copies of the inputs of a tile.
  Tiling tiling = candidate.tiling;
  while (tiling.bytes > usable / 8) {
    SmallVector<Interval> tile(candidate.piece);
    for (auto [loop, size] :
         llvm::zip_equal(launch.tiles.getAxes(), tiling.sizes))
      tile[loop].size = std::min(tile[loop].size, size);
    OwningOpRef<func::FuncOp> function = launch.tiles.createTile(tile, "tile");
    FailureOr<SmallVector<int64_t>> scratch =
        getScratchBytes(*function, launch.dispatch.getContext());
    if (failed(scratch))
      return failure();
    if (scratch->front() <= usable / 4)
      break;
    budget = std::max<int64_t>(tiling.bytes / 2, 1);
    Tiling smaller =
        chooseTiling(launch, candidate.piece, candidate.grid, budget, machine);
    if (smaller.bytes >= tiling.bytes)
      break;
    tiling = std::move(smaller);
  }
  return budget;
}

/// Returns the number of pieces of at most `most` for pieces of a size, or for
/// smaller ones.
static int64_t countPieces(int64_t extent, int64_t size, int64_t most) {
  size = std::max({size, int64_t(llvm::divideCeil(extent, most)), int64_t(1)});
  return llvm::divideCeil(extent, size);
}

SmallVector<SmallVector<int64_t>>
cores::suggestPartitions(const MappedLaunch &source, unsigned sourceAccess,
                         ArrayRef<int64_t> partition,
                         const MappedLaunch &target, unsigned targetAccess,
                         const ManyCore &machine) {
  struct Dimension {
    int64_t size, stride, length; ///< of a piece, in elements of the tensor
  };
  SmallVector<Dimension> dimensions;
  const Place &place = source.places[sourceAccess];
  int64_t unused;
  SmallVector<int64_t> strides = *getStaticStrides(place.type, unused);
  AffineMap map = source.tiles.getAccesses()[sourceAccess].map;
  for (auto [expr, size, stride] :
       llvm::zip_equal(map.getResults(), place.type.getShape(), strides)) {
    int64_t count = 1;
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      for (auto [loop, pieces] :
           llvm::zip_equal(source.tiles.getAxes(), partition))
        if (loop == dim.getPosition())
          count = pieces;
    if (size > 1)
      dimensions.push_back(
          {size, stride, int64_t(llvm::divideCeil(size, count)) * stride});
  }
  llvm::sort(dimensions, [](const Dimension &a, const Dimension &b) {
    return a.stride > b.stride;
  });

  const KernelAccess &access = target.tiles.getAccesses()[targetAccess];
  strides = *getStaticStrides(target.places[targetAccess].type, unused);
  int64_t rest = machine.getCores();
  SmallVector<int64_t> counts;
  SmallVector<bool> isFree;
  for (unsigned loop : target.tiles.getAxes()) {
    int64_t extent = target.tiles.getExtents()[loop], count = 1;
    isFree.push_back(!access.dependsOn(loop));
    for (auto [linear, stride] : llvm::zip_equal(access.linear, strides)) {
      if (!linear || linear->coefficients[loop] != 1 || stride == 0)
        continue;
      // The elements between the begin and the end of the dimension that a
      // piece of the other launch has.
      int64_t length = stride * extent;
      for (const Dimension &each : dimensions) {
        if (each.stride >= stride * extent || each.stride * each.size <= stride)
          continue;
        length = std::min(length, each.length);
        if (each.length > each.stride)
          break;
      }
      count = countPieces(extent, llvm::divideCeil(length, stride), rest);
    }
    counts.push_back(count);
    rest /= count;
  }
  SmallVector<SmallVector<int64_t>> found = {counts};
  // The loops that the tensor does not depend on may use the other cores.
  for (auto [i, loop] : llvm::enumerate(target.tiles.getAxes())) {
    if (!isFree[i] || rest <= 1)
      continue;
    counts[i] = countPieces(target.tiles.getExtents()[loop], 1, rest);
    rest /= counts[i];
  }
  if (counts != found.front())
    found.push_back(counts);
  return found;
}

/// The numbers of pieces and of boxes of a piece that are sampled at most.
static constexpr int64_t kMostSampledPieces = 3, kMostSampledBoxes = 4;

std::vector<SampledPiece>
cores::samplePieces(const MappedLaunch &launch, unsigned access,
                    const PartitionCandidate &candidate) {
  std::vector<SampledPiece> samples;
  SmallVector<SmallVector<Interval>> pieces =
      launch.listPieces(candidate.partition);
  size_t count = std::min<size_t>(pieces.size(), kMostSampledPieces);
  for (size_t i = 0; i < count; ++i) {
    SampledPiece &sample = samples.emplace_back();
    sample.number = i * pieces.size() / count;
    SmallVector<Box> boxes;
    for (ArrayRef<Interval> tile :
         launch.listTiles(pieces[sample.number], candidate.tiling.sizes)) {
      Box box = launch.tiles.getBox(access, tile);
      if (boxes.empty() || box != boxes.back())
        boxes.push_back(std::move(box));
    }
    size_t kept = std::min<size_t>(boxes.size(), kMostSampledBoxes);
    sample.scale = double(boxes.size()) / double(kept);
    for (size_t k = 0; k < kept; ++k)
      sample.boxes.push_back(boxes[k * boxes.size() / kept]);
  }
  return samples;
}
