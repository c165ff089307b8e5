//===- PartitionSearch.cpp - Partitions that agree ------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionSearch.h"

#include "Codegen/Schedule/Buffers/Kernel.h"
#include "Homes.h"
#include "PartitionCandidates.h"
#include "dialects/Repro/IR/Repro.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/Support/MathExtras.h"

#include <deque>
#include <map>
#include <set>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

/// The number of partitions of a kernel that are compared in all states.
static constexpr size_t kMostCandidates = 8;

/// The number of states after a launch.
static constexpr size_t kMostStates = 32;

/// The number of passes over all tensors and launches that look for a single
/// change that saves time.
static constexpr int kMostRounds = 3;

/// The part of the time of all launches that a change has to save.
static constexpr double kLeastGain = 1e-6;

/// A partition that another launch suggests is not compared if the launch takes
/// more than this multiple of its least time.
static constexpr double kMostSuggested = 4;

/// The number of copies between cores that may replace the transfers of one
/// access, since each copy makes the plan longer.
static constexpr double kMostAccessCopies = 200'000;

namespace {
/// The partitions of the launches of one kernel.
struct Kernel {
  std::deque<PartitionCandidate> candidates;
  std::map<std::vector<int64_t>, std::optional<unsigned>> numbers;
  unsigned numCompared = 0; ///< of the candidates, in all states
  int64_t budget = 0;       ///< bytes of the buffers of a tile
};

/// The choices for the first launches.
struct State {
  double seconds = 0;
  std::vector<uint16_t> choices; ///< the candidate, by launch
  llvm::BitVector resident;      ///< the tensors in the memories of cores
};

/// A further choice for a state.
struct Step {
  unsigned state, candidate;
  bool isResident; ///< whether the tensors that the launch begins stay in cores
  double seconds;
};

class Search {
public:
  Search(ArrayRef<MappedLaunch> launches, Value arena, const ManyCore &machine);

  FailureOr<std::vector<SmallVector<int64_t>>> run();

private:
  std::optional<unsigned> addCandidate(unsigned launch,
                                       ArrayRef<int64_t> partition);
  void addSuggestions(unsigned launch);
  SmallVector<SmallVector<int64_t>>
  suggest(TensorUse from, ArrayRef<int64_t> partition, TensorUse to) const;
  SmallVector<unsigned> listChoices(unsigned launch, const State &state);
  double getSeconds(unsigned launch, unsigned candidate, const State &state);
  double sumSeconds(ArrayRef<unsigned> numbers, const State &state);
  bool improve(State &state, ArrayRef<unsigned> affected,
               function_ref<void(State &)> change);
  bool mayBecomeResident(unsigned tensor, const State &state) const;
  void improve(State &state);
  State runBeam();
  AccessCost getReadCost(TensorUse use, unsigned candidate, unsigned tensor,
                         const State &state);
  AccessCost predictRead(TensorUse use, unsigned candidate,
                         const Tensor &tensor, ArrayRef<unsigned> choices);
  AccessCost getWriteCost(TensorUse use, unsigned candidate);
  int64_t getRegionBytes(TensorUse writer, unsigned candidate) const;
  int64_t getUsedBytes(unsigned launch, unsigned candidate,
                       const State &state) const;
  ArrayRef<HomePart> getParts(const Tensor &tensor, TensorUse writer,
                              unsigned candidate);
  bool begins(unsigned tensor, unsigned launch) const {
    return tensors.tensors[tensor].writers.front().launch == launch;
  }
  bool mayStay(unsigned tensor) const {
    return tensors.tensors[tensor].digits.has_value();
  }

  ArrayRef<MappedLaunch> launches;
  const ManyCore &machine;
  TensorMap tensors;
  std::map<std::pair<Operation *, size_t>, Kernel> kernels;
  SmallVector<Kernel *> ofLaunch;
  bool hasFailed = false; ///< an error has been emitted
  /// The tensors that exist during each launch, and those that a later launch
  /// reads.
  std::vector<SmallVector<unsigned>> live, liveAfter;

  std::map<std::tuple<Kernel *, unsigned, unsigned>, std::vector<SampledPiece>>
      samples;
  std::map<std::tuple<unsigned, unsigned, unsigned>, std::vector<HomePart>>
      parts;
  std::map<std::tuple<unsigned, unsigned, unsigned, std::vector<unsigned>>,
           AccessCost>
      reads;
  std::map<std::tuple<Kernel *, unsigned, unsigned>, AccessCost> writes;
};
} // namespace

Search::Search(ArrayRef<MappedLaunch> launches, Value arena,
               const ManyCore &machine)
    : launches(launches), machine(machine), tensors(launches, arena),
      live(launches.size()), liveAfter(launches.size()) {
  // The axes of a kernel differ between launches if one of them is in conflict
  // with itself.
  for (const MappedLaunch &launch : launches) {
    auto [found, isNew] = kernels.try_emplace(
        {launch.tiles.getKernel(), launch.tiles.getAxes().size()});
    Kernel &kernel = found->second;
    ofLaunch.push_back(&kernel);
    if (!isNew)
      continue;
    kernel.budget = getUsableBytes(machine);
    auto list = listCandidates(launch, kMostCandidates, kernel.budget, machine);
    if (isa<FoldOp>(launch.tiles.getBody())) {
      FailureOr<int64_t> budget = getTileBudget(launch, list.front(), machine);
      hasFailed |= failed(budget);
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
    unsigned last = tensor.getLast();
    for (unsigned i = tensor.writers.front().launch; i <= last; ++i) {
      live[i].push_back(number);
      if (i < last)
        liveAfter[i].push_back(number);
    }
  }
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

std::optional<unsigned> Search::addCandidate(unsigned number,
                                             ArrayRef<int64_t> partition) {
  const MappedLaunch &launch = launches[number];
  Kernel &kernel = *ofLaunch[number];
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

/// Returns the number of pieces of at most `most` for pieces of a size, or for
/// smaller ones.
static int64_t countPieces(int64_t extent, int64_t size, int64_t most) {
  size = std::max({size, int64_t(llvm::divideCeil(extent, most)), int64_t(1)});
  return llvm::divideCeil(extent, size);
}

/// Returns the partitions of a launch whose pieces access what single pieces of
/// another launch access, if both see the tensor by views with related strides.
SmallVector<SmallVector<int64_t>> Search::suggest(TensorUse from,
                                                  ArrayRef<int64_t> partition,
                                                  TensorUse to) const {
  struct Dimension {
    int64_t size, stride, length; ///< of a piece, in elements of the tensor
  };
  SmallVector<Dimension> dimensions;
  const MappedLaunch &source = launches[from.launch];
  const Place &place = source.places[from.access];
  int64_t unused;
  SmallVector<int64_t> strides = *getStaticStrides(place.type, unused);
  AffineMap map = source.tiles.getAccesses()[from.access].map;
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

  const MappedLaunch &target = launches[to.launch];
  const KernelAccess &access = target.tiles.getAccesses()[to.access];
  strides = *getStaticStrides(target.places[to.access].type, unused);
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

/// Adds candidates for which each reader of a tensor finds its pieces.
void Search::addSuggestions(unsigned number) {
  constexpr size_t mostReaders = 3, mostPartitions = 2;
  Kernel &kernel = *ofLaunch[number];
  for (unsigned i = 0; i < launches[number].places.size(); ++i) {
    std::optional<unsigned> tensor = tensors.getWritten({number, i});
    if (!tensor || !mayStay(*tensor))
      continue;
    for (TensorUse reader :
         ArrayRef(tensors.tensors[*tensor].readers).take_front(mostReaders)) {
      const auto &theirs = ofLaunch[reader.launch]->candidates;
      if (launches[reader.launch].isEmpty())
        continue;
      for (size_t c = 0; c < std::min(theirs.size(), mostPartitions); ++c)
        for (ArrayRef<int64_t> partition :
             suggest(reader, theirs[c].partition, {number, i}))
          addCandidate(number, partition);
    }
  }
  kernel.numCompared = kernel.candidates.size();
}

SmallVector<unsigned> Search::listChoices(unsigned number, const State &state) {
  SmallVector<unsigned> choices(
      llvm::to_vector(llvm::seq(0u, ofLaunch[number]->numCompared)));
  if (launches[number].isEmpty())
    return choices;
  for (unsigned i = 0; i < launches[number].places.size(); ++i) {
    std::optional<unsigned> tensor = tensors.getRead({number, i});
    if (!tensor || !state.resident[*tensor])
      continue;
    for (TensorUse writer : tensors.tensors[*tensor].writers) {
      if (writer.launch >= number || launches[writer.launch].isEmpty())
        continue;
      const PartitionCandidate &theirs =
          ofLaunch[writer.launch]->candidates[state.choices[writer.launch]];
      for (ArrayRef<int64_t> partition :
           suggest(writer, theirs.partition, {number, i}))
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

ArrayRef<HomePart> Search::getParts(const Tensor &tensor, TensorUse writer,
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
AccessCost Search::predictRead(TensorUse use, unsigned candidate,
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

AccessCost Search::getReadCost(TensorUse use, unsigned candidate,
                               unsigned number, const State &state) {
  const Tensor &tensor = tensors.tensors[number];
  std::vector<unsigned> choices;
  for (TensorUse writer : tensor.writers)
    if (writer.launch < use.launch)
      choices.push_back(state.choices[writer.launch]);
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
AccessCost Search::getWriteCost(TensorUse use, unsigned number) {
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

int64_t Search::getRegionBytes(TensorUse writer, unsigned number) const {
  const auto &bytes = ofLaunch[writer.launch]->candidates[number].pieceBytes;
  return bytes.empty() ? 0 : bytes[writer.access];
}

/// Returns the bytes of a core that the buffers of tiles and the tensors take
/// during a launch.
int64_t Search::getUsedBytes(unsigned number, unsigned candidate,
                             const State &state) const {
  int64_t bytes = ofLaunch[number]->candidates[candidate].tiling.bytes;
  for (unsigned tensor : live[number]) {
    if (!state.resident[tensor])
      continue;
    for (TensorUse writer : tensors.tensors[tensor].writers)
      if (writer.launch <= number)
        bytes += getRegionBytes(writer, writer.launch == number
                                            ? candidate
                                            : state.choices[writer.launch]);
  }
  return bytes;
}

double Search::getSeconds(unsigned number, unsigned choice,
                          const State &state) {
  const MappedLaunch &launch = launches[number];
  if (launch.isEmpty())
    return 0;
  const PartitionCandidate &candidate = ofLaunch[number]->candidates[choice];
  SmallVector<AccessCost> in(candidate.reads), out(candidate.writes);
  for (auto [i, access] : llvm::enumerate(launch.tiles.getAccesses())) {
    TensorUse use{number, unsigned(i)};
    std::optional<unsigned> tensor = tensors.getRead(use);
    if (access.reads && tensor && state.resident[*tensor])
      in[i] = getReadCost(use, choice, *tensor, state);
    tensor = tensors.getWritten(use);
    if (access.writes && tensor && state.resident[*tensor])
      out[i] = getWriteCost(use, choice);
  }
  double seconds = candidate.getSeconds(in, out, machine);
  // Bytes that do not fit are stored in the DRAM, and read.
  int64_t over = getUsedBytes(number, choice, state) - getUsableBytes(machine);
  if (over > 0)
    seconds += 2 * double(over) * double(machine.getCores()) /
               getDramBytesPerSecond(machine);
  return seconds;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

State Search::runBeam() {
  for (unsigned number = launches.size(); number-- > 0;)
    if (!launches[number].isEmpty())
      addSuggestions(number);
  std::vector<State> states(1);
  states.front().resident.resize(tensors.tensors.size());
  for (unsigned number = 0; number < launches.size(); ++number) {
    bool beginsTensor = llvm::any_of(
        live[number], [&](unsigned tensor) { return begins(tensor, number); });
    std::vector<Step> steps;
    for (auto [s, state] : llvm::enumerate(states))
      for (bool isResident : {false, true}) {
        if (isResident && !beginsTensor)
          continue;
        for (unsigned tensor : live[number])
          if (begins(tensor, number))
            state.resident[tensor] = isResident;
        for (unsigned choice : listChoices(number, state))
          steps.push_back({unsigned(s), choice, isResident,
                           state.seconds + getSeconds(number, choice, state)});
      }
    llvm::stable_sort(steps, [](const Step &a, const Step &b) {
      return a.seconds < b.seconds;
    });
    // States whose later launches find the same tensors differ in nothing else.
    std::set<std::vector<int>> known;
    std::vector<State> next;
    for (const Step &step : steps) {
      if (next.size() == kMostStates)
        break;
      State state = states[step.state];
      state.seconds = step.seconds;
      state.choices.push_back(step.candidate);
      std::vector<int> key;
      for (unsigned tensor : liveAfter[number]) {
        if (begins(tensor, number))
          state.resident[tensor] = step.isResident;
        if (!state.resident[tensor]) {
          key.push_back(-1);
          continue;
        }
        for (TensorUse writer : tensors.tensors[tensor].writers)
          if (writer.launch <= number)
            key.push_back(state.choices[writer.launch]);
      }
      if (known.insert(std::move(key)).second)
        next.push_back(std::move(state));
    }
    states = std::move(next);
  }
  return states.front();
}

static void makeUnique(SmallVector<unsigned> &numbers) {
  llvm::sort(numbers);
  numbers.erase(llvm::unique(numbers), numbers.end());
}

double Search::sumSeconds(ArrayRef<unsigned> numbers, const State &state) {
  double seconds = 0;
  for (unsigned number : numbers)
    seconds += getSeconds(number, state.choices[number], state);
  return seconds;
}

/// Makes a change that affects the given launches if it saves time.
bool Search::improve(State &state, ArrayRef<unsigned> affected,
                     function_ref<void(State &)> change) {
  double before = sumSeconds(affected, state);
  State changed = state;
  change(changed);
  double saved = before - sumSeconds(affected, changed);
  if (saved <= kLeastGain * state.seconds)
    return false;
  changed.seconds -= saved;
  state = std::move(changed);
  return true;
}

/// Whether cores have room for a tensor during all launches in which it exists.
bool Search::mayBecomeResident(unsigned number, const State &state) const {
  const Tensor &tensor = tensors.tensors[number];
  int64_t bytes = 0;
  for (TensorUse writer : tensor.writers)
    bytes += getRegionBytes(writer, state.choices[writer.launch]);
  for (unsigned i = tensor.writers.front().launch; i <= tensor.getLast(); ++i)
    if (bytes + getUsedBytes(i, state.choices[i], state) >
        getUsableBytes(machine))
      return false;
  return true;
}

/// Makes single changes as long as they save time.
void Search::improve(State &state) {
  SmallVector<unsigned> all(
      llvm::to_vector(llvm::seq<unsigned>(0, launches.size())));
  state.seconds = sumSeconds(all, state);
  bool changed = true;
  for (int round = 0; changed && round < kMostRounds; ++round) {
    changed = false;
    for (auto [number, tensor] : llvm::enumerate(tensors.tensors)) {
      if (!tensor.digits ||
          (!state.resident[number] && !mayBecomeResident(number, state)))
        continue;
      SmallVector<unsigned> affected;
      for (ArrayRef<TensorUse> uses : {tensor.writers, tensor.readers})
        for (TensorUse use : uses)
          affected.push_back(use.launch);
      makeUnique(affected);
      changed |= improve(state, affected, [number = number](State &other) {
        other.resident.flip(number);
      });
    }
    for (unsigned number = 0; number < launches.size(); ++number) {
      SmallVector<unsigned> affected = {number};
      for (unsigned i = 0; i < launches[number].places.size(); ++i)
        if (std::optional<unsigned> tensor = tensors.getWritten({number, i});
            tensor && state.resident[*tensor])
          for (TensorUse reader : tensors.tensors[*tensor].readers)
            affected.push_back(reader.launch);
      makeUnique(affected);
      for (unsigned choice : listChoices(number, state))
        if (choice != state.choices[number])
          changed |= improve(state, affected, [&](State &other) {
            other.choices[number] = choice;
          });
    }
  }
}

FailureOr<std::vector<SmallVector<int64_t>>> Search::run() {
  if (hasFailed)
    return failure();
  std::vector<State> states = {runBeam()};
  State &alone = states.emplace_back();
  alone.choices.assign(launches.size(), 0);
  alone.resident.resize(tensors.tensors.size());
  for (State &state : states)
    improve(state);
  if (states.back().seconds < states.front().seconds)
    std::swap(states.back(), states.front());
  std::vector<SmallVector<int64_t>> partitions;
  for (auto [kernel, choice] :
       llvm::zip_equal(ofLaunch, states.front().choices))
    partitions.push_back(kernel->candidates[choice].partition);
  return partitions;
}

/// The number of pieces of a plan above which each partition is the best one of
/// its launch alone, so that the time and memory of the search are bounded.
static constexpr int64_t kMostSearched = 200'000;

FailureOr<std::vector<SmallVector<int64_t>>>
cores::searchPartitions(ArrayRef<MappedLaunch> launches, Value arena,
                        const ManyCore &machine) {
  std::map<std::pair<Operation *, size_t>, SmallVector<int64_t>> known;
  std::vector<SmallVector<int64_t>> alone;
  int64_t numPieces = 0;
  for (const MappedLaunch &launch : launches) {
    auto [found, isNew] = known.try_emplace(
        {launch.tiles.getKernel(), launch.tiles.getAxes().size()});
    if (isNew)
      found->second = getFastest(launch, machine).partition;
    alone.push_back(found->second);
    numPieces += launch.countPieces(found->second);
  }
  if (launches.empty() || numPieces > kMostSearched)
    return alone;
  return Search(launches, arena, machine).run();
}
