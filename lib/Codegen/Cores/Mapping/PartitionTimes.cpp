//===- PartitionTimes.cpp - The time of launches by partition -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionTimes.h"

#include "dialects/Repro/IR/Repro.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

/// The number of partitions of a kernel that are fast alone.
static constexpr size_t kMostCandidates = 8;

/// A partition that another launch suggests is not compared if the launch takes
/// more than this multiple of its least time.
static constexpr double kMostSuggested = 4;

/// The number of copies between cores that may replace the transfers of one
/// access, since each copy makes the plan longer.
static constexpr double kMostAccessCopies = 200'000;

PartitionTimes::PartitionTimes(ArrayRef<MappedLaunch> launches, Value arena,
                               const ManyCore &machine)
    : launches(launches), machine(machine), tensors(launches, arena),
      live(launches.size()) {
  // The axes of a kernel differ between launches if one of them is in conflict
  // with itself.
  for (const MappedLaunch &launch : launches) {
    auto [found, isNew] = kernels.try_emplace(
        {launch.tiles.getKernel(), launch.tiles.getAxes().size()});
    KernelPartitions &kernel = found->second;
    ofLaunch.push_back(&kernel);
    if (!isNew)
      continue;
    kernel.budget = getUsableBytes(machine);
    auto list = listCandidates(launch, kMostCandidates, kernel.budget, machine);
    if (isa<FoldOp>(launch.tiles.getBody())) {
      FailureOr<int64_t> budget = getTileBudget(launch, list.front(), machine);
      isWrong |= failed(budget);
      if (succeeded(budget) && *budget < kernel.budget) {
        kernel.budget = *budget;
        list = listCandidates(launch, kMostCandidates, kernel.budget, machine);
      }
    }
    for (PartitionCandidate &candidate : list) {
      kernel.numbers[std::vector<int64_t>(candidate.partition.begin(),
                                          candidate.partition.end())] =
          kernel.candidates.size();
      kernel.candidates.push_back(std::move(candidate));
    }
    kernel.numCompared = kernel.candidates.size();
  }
  for (auto [number, tensor] : llvm::enumerate(tensors.tensors)) {
    if (!tensor.digits)
      continue;
    for (unsigned i = tensor.writers.front().launch; i <= tensor.getLast(); ++i)
      live[i].push_back(number);
  }
  for (unsigned number = launches.size(); number-- > 0;)
    if (!launches[number].isEmpty())
      addSuggestions(number);
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

std::optional<unsigned>
PartitionTimes::addCandidate(unsigned number, ArrayRef<int64_t> partition) {
  const MappedLaunch &launch = launches[number];
  KernelPartitions &kernel = *ofLaunch[number];
  if (launch.isEmpty())
    return 0;
  auto [found, isNew] = kernel.numbers.try_emplace(partition.vec());
  if (isNew) {
    PartitionCandidate candidate =
        makeCandidate(launch, partition, kernel.budget, machine);
    if (candidate.tiling.bytes <= getUsableBytes(machine) &&
        candidate.seconds <=
            kMostSuggested * kernel.candidates.front().seconds) {
      found->second = kernel.candidates.size();
      kernel.candidates.push_back(std::move(candidate));
    }
  }
  return found->second;
}

/// Adds candidates for which each reader of a tensor finds its pieces.
void PartitionTimes::addSuggestions(unsigned number) {
  constexpr size_t mostReaders = 3, mostPartitions = 2;
  KernelPartitions &kernel = *ofLaunch[number];
  for (unsigned i = 0; i < launches[number].places.size(); ++i) {
    std::optional<unsigned> tensor = tensors.getWritten({number, i});
    if (!tensor || !tensors.tensors[*tensor].digits)
      continue;
    for (TensorUse reader :
         ArrayRef(tensors.tensors[*tensor].readers).take_front(mostReaders)) {
      const auto &theirs = ofLaunch[reader.launch]->candidates;
      if (launches[reader.launch].isEmpty())
        continue;
      for (size_t c = 0; c < std::min(theirs.size(), mostPartitions); ++c)
        for (ArrayRef<int64_t> partition : suggestPartitions(
                 launches[reader.launch], reader.access, theirs[c].partition,
                 launches[number], i, machine))
          addCandidate(number, partition);
    }
  }
  kernel.numCompared = kernel.candidates.size();
}

SmallVector<unsigned>
PartitionTimes::listChoices(unsigned number, const PartitionChoices &others) {
  SmallVector<unsigned> choices(
      llvm::to_vector(llvm::seq(0u, ofLaunch[number]->numCompared)));
  if (launches[number].isEmpty())
    return choices;
  for (unsigned i = 0; i < launches[number].places.size(); ++i) {
    std::optional<unsigned> tensor = tensors.getRead({number, i});
    if (!tensor || !others.resident[*tensor])
      continue;
    for (TensorUse writer : tensors.tensors[*tensor].writers) {
      if (writer.launch >= number || launches[writer.launch].isEmpty())
        continue;
      const PartitionCandidate &theirs =
          ofLaunch[writer.launch]->candidates[others.choices[writer.launch]];
      for (ArrayRef<int64_t> partition :
           suggestPartitions(launches[writer.launch], writer.access,
                             theirs.partition, launches[number], i, machine))
        if (std::optional<unsigned> added = addCandidate(number, partition);
            added && !llvm::is_contained(choices, *added))
          choices.push_back(*added);
    }
  }
  return choices;
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

ArrayRef<HomePart> PartitionTimes::getParts(const Tensor &tensor,
                                            TensorUse writer,
                                            unsigned candidate) {
  auto [found, isNew] =
      parts.try_emplace({writer.launch, writer.access, candidate});
  if (isNew) {
    const MappedLaunch &launch = launches[writer.launch];
    ArrayRef<int64_t> partition =
        ofLaunch[writer.launch]->candidates[candidate].partition;
    if (!launch.isEmpty())
      for (auto [i, range] : llvm::enumerate(launch.listPieces(partition)))
        appendParts(tensor, launch.places[writer.access],
                    launch.tiles.getBox(writer.access, range), i,
                    found->second);
  }
  return found->second;
}

/// Predicts the transfers of a tensor from the cores that have its pieces.
AccessCost PartitionTimes::predictRead(TensorUse use, unsigned candidate,
                                       const Tensor &tensor,
                                       ArrayRef<unsigned> choices) {
  const MappedLaunch &launch = launches[use.launch];
  const PartitionCandidate &reader =
      ofLaunch[use.launch]->candidates[candidate];
  auto [sampled, isNew] =
      samples.try_emplace({ofLaunch[use.launch], use.access, candidate});
  if (isNew)
    sampled->second = samplePieces(launch, use.access, reader);
  double link = machine.linkBytesPerCycle * machine.clockHz;
  double setup = machine.dmaSetupCycles / machine.clockHz;
  double hops = 2 * std::sqrt(double(machine.getCores())) / 3;
  int64_t elementBytes = tensor.digits->elementBytes;
  double step = double(reader.grid.numPieces) /
                double(std::max<size_t>(sampled->second.size(), 1));
  double most = 0, numParts = 0, numBoxes = 0;
  SmallVector<HomeRegion> regions(tensor.writers.size());
  std::map<unsigned, double> sent; // bytes by core
  AccessCost cost;
  for (const SampledPiece &piece : sampled->second) {
    double seconds = 0;
    for (ArrayRef<Interval> box : piece.boxes) {
      SmallVector<PartCopy> copies = listPartCopies(
          tensor, use.launch, launch.places[use.access], box, regions,
          [&](unsigned writer) {
            return getParts(tensor, tensor.writers[writer], choices[writer]);
          });
      numParts += double(copies.size()) * piece.scale;
      numBoxes += piece.scale;
      for (const PartCopy &part : copies) {
        int64_t row = part.getRowBytes(elementBytes);
        // The piece lies on the core that has all of its box.
        if (copies.size() == 1 && row == part.getBytes(elementBytes))
          continue;
        double bytes = double(part.getBytes(elementBytes)) /
                       double(std::max<int64_t>(row, 1)) *
                       double(llvm::alignTo(
                           row, std::max<int64_t>(machine.dmaAlignment, 1)));
        seconds += piece.scale * (setup + bytes / link);
        if (copies.size() == 1)
          continue;
        seconds += piece.scale * 2 * hops * machine.hopCycles / machine.clockHz;
        sent[part.core] +=
            bytes * piece.scale * step / reader.getSharers(use.access);
      }
    }
    most = std::max(most, seconds);
    cost.boxes = std::max(cost.boxes, piece.scale * double(piece.boxes.size()));
  }
  for (auto [core, bytes] : sent)
    most = std::max(most, bytes / link);
  cost.seconds = most;
  // The plan would be too long.
  if (numParts * step > kMostAccessCopies)
    cost.seconds += 1;
  return cost;
}

AccessCost PartitionTimes::getReadCost(TensorUse use, unsigned candidate,
                                       unsigned number,
                                       const PartitionChoices &others) {
  const Tensor &tensor = tensors.tensors[number];
  std::vector<unsigned> choices;
  for (TensorUse writer : tensor.writers)
    if (writer.launch < use.launch)
      choices.push_back(others.choices[writer.launch]);
  auto [found, isNew] =
      reads.try_emplace({use.launch, use.access, candidate, choices});
  if (isNew)
    found->second = predictRead(use, candidate, tensor, choices);
  return found->second;
}

/// Whether the elements of a box follow each other in a larger one.
static bool isContiguous(ArrayRef<Interval> box, ArrayRef<Interval> whole) {
  bool isRow = true; // all further dimensions have one element
  for (int64_t dim = box.size() - 1; dim >= 0; --dim) {
    if (!isRow && box[dim].size > 1)
      return false;
    if (box[dim].size != whole[dim].size)
      isRow = false;
  }
  return true;
}

/// Predicts the transfers of the boxes of tiles to the piece of their core.
AccessCost PartitionTimes::getWriteCost(TensorUse use, unsigned number) {
  auto [found, isNew] =
      writes.try_emplace({ofLaunch[use.launch], use.access, number});
  AccessCost &cost = found->second;
  if (!isNew)
    return cost;
  const MappedLaunch &launch = launches[use.launch];
  const PartitionCandidate &candidate =
      ofLaunch[use.launch]->candidates[number];
  cost = candidate.writes[use.access];
  cost.isDram = false;
  SmallVector<Interval> tile(candidate.piece);
  for (auto [loop, size] :
       llvm::zip_equal(launch.tiles.getAxes(), candidate.tiling.sizes))
    tile[loop].size = std::min(tile[loop].size, size);
  Box whole = launch.tiles.getBox(use.access, candidate.piece);
  Box box = launch.tiles.getBox(use.access, tile);
  double bytes =
      cost.boxes * double(getNumElements(box) *
                          launch::getElementBytes(
                              launch.places[use.access].type.getElementType()));
  cost.seconds =
      isContiguous(box, whole)
          ? 0
          : cost.boxes * machine.dmaSetupCycles / machine.clockHz +
                bytes / (machine.linkBytesPerCycle * machine.clockHz);
  return cost;
}

int64_t PartitionTimes::getRegionBytes(TensorUse writer,
                                       unsigned number) const {
  const auto &bytes = ofLaunch[writer.launch]->candidates[number].pieceBytes;
  return bytes.empty() ? 0 : bytes[writer.access];
}

int64_t PartitionTimes::getUsedBytes(unsigned number, unsigned candidate,
                                     const PartitionChoices &others) const {
  int64_t bytes = ofLaunch[number]->candidates[candidate].tiling.bytes;
  for (unsigned tensor : live[number]) {
    if (!others.resident[tensor])
      continue;
    for (TensorUse writer : tensors.tensors[tensor].writers)
      if (writer.launch <= number)
        bytes += getRegionBytes(writer, writer.launch == number
                                            ? candidate
                                            : others.choices[writer.launch]);
  }
  return bytes;
}

double PartitionTimes::getSeconds(unsigned number, unsigned choice,
                                  const PartitionChoices &others) {
  const MappedLaunch &launch = launches[number];
  if (launch.isEmpty())
    return 0;
  const PartitionCandidate &candidate = ofLaunch[number]->candidates[choice];
  SmallVector<AccessCost> in(candidate.reads), out(candidate.writes);
  for (auto [i, access] : llvm::enumerate(launch.tiles.getAccesses())) {
    TensorUse use{number, unsigned(i)};
    std::optional<unsigned> tensor = tensors.getRead(use);
    if (access.reads && tensor && others.resident[*tensor])
      in[i] = getReadCost(use, choice, *tensor, others);
    tensor = tensors.getWritten(use);
    if (access.writes && tensor && others.resident[*tensor])
      out[i] = getWriteCost(use, choice);
  }
  double seconds = candidate.getSeconds(in, out, machine);
  // Bytes that do not fit are stored in the DRAM, and read.
  int64_t over = getUsedBytes(number, choice, others) - getUsableBytes(machine);
  if (over > 0)
    seconds += 2 * double(over) * double(machine.getCores()) /
               getDramBytesPerSecond(machine);
  return seconds;
}
