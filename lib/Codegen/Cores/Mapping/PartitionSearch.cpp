//===- PartitionSearch.cpp - Partitions that agree ------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionSearch.h"

#include "PartitionTimes.h"

#include <set>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

/// The number of states after a launch.
static constexpr size_t kMostStates = 32;

/// The number of passes over all tensors and launches that look for a single
/// change that saves time.
static constexpr int kMostRounds = 3;

/// The part of the time of all launches that a change has to save.
static constexpr double kLeastGain = 1e-6;

namespace {
/// The choices for the first launches.
using State = PartitionChoices;

/// A further choice for a state.
struct Step {
  unsigned state, candidate;
  bool isResident; ///< whether the tensors that the launch begins stay in cores
  double seconds;
};

class Search {
public:
  Search(PartitionTimes &times, const ManyCore &machine)
      : times(times), launches(times.getLaunches()),
        tensors(times.getTensors().tensors), machine(machine) {}

  /// Returns the choices for all launches.
  State run();

private:
  State runBeam();
  double sumSeconds(ArrayRef<unsigned> numbers, const State &state);
  bool improve(State &state, ArrayRef<unsigned> affected,
               function_ref<void(State &)> change);
  bool mayBecomeResident(unsigned tensor, const State &state) const;
  void improve(State &state);

  PartitionTimes &times;
  ArrayRef<MappedLaunch> launches;
  ArrayRef<Tensor> tensors;
  const ManyCore &machine;
};
} // namespace

State Search::runBeam() {
  std::vector<State> states(1);
  states.front().resident.resize(tensors.size());
  for (unsigned number = 0; number < launches.size(); ++number) {
    bool beginsTensor =
        llvm::any_of(times.getLive(number), [&](unsigned tensor) {
          return times.begins(tensor, number);
        });
    std::vector<Step> steps;
    for (auto [s, state] : llvm::enumerate(states))
      for (bool isResident : {false, true}) {
        if (isResident && !beginsTensor)
          continue;
        for (unsigned tensor : times.getLive(number))
          if (times.begins(tensor, number))
            state.resident[tensor] = isResident;
        for (unsigned choice : times.listChoices(number, state))
          steps.push_back(
              {unsigned(s), choice, isResident,
               state.seconds + times.getSeconds(number, choice, state)});
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
      for (unsigned tensor : times.getLive(number)) {
        if (tensors[tensor].getLast() == number)
          continue;
        if (times.begins(tensor, number))
          state.resident[tensor] = step.isResident;
        if (!state.resident[tensor]) {
          key.push_back(-1);
          continue;
        }
        for (TensorUse writer : tensors[tensor].writers)
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
    seconds += times.getSeconds(number, state.choices[number], state);
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
  const Tensor &tensor = tensors[number];
  int64_t bytes = 0;
  for (TensorUse writer : tensor.writers)
    bytes += times.getRegionBytes(writer, state.choices[writer.launch]);
  for (unsigned i = tensor.writers.front().launch; i <= tensor.getLast(); ++i)
    if (bytes + times.getUsedBytes(i, state.choices[i], state) >
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
    for (auto [number, tensor] : llvm::enumerate(tensors)) {
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
        if (std::optional<unsigned> tensor =
                times.getTensors().getWritten({number, i});
            tensor && state.resident[*tensor])
          for (TensorUse reader : tensors[*tensor].readers)
            affected.push_back(reader.launch);
      makeUnique(affected);
      for (unsigned choice : times.listChoices(number, state))
        if (choice != state.choices[number])
          changed |= improve(state, affected, [&](State &other) {
            other.choices[number] = choice;
          });
    }
  }
}

State Search::run() {
  State found = runBeam(), alone;
  alone.choices.assign(launches.size(), 0);
  alone.resident.resize(tensors.size());
  for (State *state : {&found, &alone})
    improve(*state);
  return alone.seconds < found.seconds ? alone : found;
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
  PartitionTimes times(launches, arena, machine);
  if (times.hasFailed())
    return failure();
  State found = Search(times, machine).run();
  std::vector<SmallVector<int64_t>> partitions;
  for (auto [number, choice] : llvm::enumerate(found.choices))
    partitions.push_back(
        times.getPartitions(number).candidates[choice].partition);
  return partitions;
}
