//===- Executor.cpp - Runs the launches of a plan on CPUs -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Executor.h"

#include "FloatEnvironment.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <sys/mman.h>
#include <unistd.h>

using namespace repro_runtime;

static constexpr uint64_t cacheLine = 64;
static constexpr uint64_t hugePage = 1 << 21;
/// A thread's range of work items is cut into shares at these multiples of 1/8.
/// The first share is large because each share pays for the setup of a kernel.
/// The others are small, so that other threads can take them if the thread is
/// interrupted.
static constexpr uint64_t cuts[] = {0, 5, 7, 8};
static constexpr uint64_t sharesPerThread = std::size(cuts) - 1;
/// The minimum number of grains in each share after the first one. In a share
/// of a single grain, the setup of a contraction would take about as long as
/// its computation.
static constexpr uint64_t leastGrains = 2;

void Executor::Free::operator()(char *memory) const { std::free(memory); }

Executor::Memory Executor::allocate(uint64_t bytes) {
  bool isLarge = bytes >= hugePage / 2;
  uint64_t alignment = isLarge ? hugePage : cacheLine;
  uint64_t rounded = (bytes / alignment + 1) * alignment;
  void *memory = std::aligned_alloc(alignment, rounded);
#ifdef MADV_HUGEPAGE
  // Huge pages reduce TLB misses on large tensors. The call is a hint only.
  if (memory && isLarge)
    madvise(memory, rounded, MADV_HUGEPAGE);
#endif
  return Memory(static_cast<char *>(memory));
}

Executor::Executor(Plan thePlan, Bytes constants,
                   std::vector<KernelEntry> kernels, unsigned threads)
    : plan(std::move(thePlan)), constants(constants),
      kernels(std::move(kernels)), pool(threads),
      arena(allocate(plan.arenaBytes)) {
  uint64_t most = 0;
  for (const Kernel &kernel : plan.kernels)
    most = std::max(most, kernel.scratchBytes);
  // A cache line between the threads' scratch buffers avoids false sharing.
  scratchStride = (most / cacheLine + 2) * cacheLine;
  scratch = allocate(scratchStride * pool.size());
}

Executor::~Executor() = default;

void Executor::launch(const Launch &launch, char *const *buffers) {
  const Kernel &kernel = plan.kernels[launch.kernel];
  if (kernel.items == 0)
    return;

  constexpr size_t inlineBuffers = 32;
  char *inlineStorage[inlineBuffers];
  std::vector<char *> storage;
  char **pointers = inlineStorage;
  if (launch.buffers.size() > inlineBuffers) {
    storage.resize(launch.buffers.size());
    pointers = storage.data();
  }
  size_t inputs = plan.states.size(), outputs = inputs + plan.inputs.size();
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const BufferRef &ref = launch.buffers[i];
    char *base = nullptr;
    switch (ref.space) {
    case Space::State:
      base = buffers[ref.index];
      break;
    case Space::Input:
      base = buffers[inputs + ref.index];
      break;
    case Space::Output:
      base = buffers[outputs + ref.index];
      break;
    case Space::Arena:
      base = arena.get();
      break;
    case Space::Constant:
      base = const_cast<char *>(constants.data);
      break;
    }
    pointers[i] = base + ref.offset;
  }

  uint64_t grain = kernel.grain;
  uint64_t grains = (kernel.items + grain - 1) / grain;
  uint64_t threads = std::min<uint64_t>(pool.size(), grains);
  if (threads == 1) {
    kernels[launch.kernel](pointers, scratch.get(), &error, 0,
                           int64_t(kernel.items));
    return;
  }

  struct Context {
    KernelEntry entry;
    char **buffers;
    char *scratch;
    uint64_t scratchStride, items, grain, grains, threads;
    int64_t *error;
  };
  Context context{kernels[launch.kernel],
                  pointers,
                  scratch.get(),
                  scratchStride,
                  kernel.items,
                  grain,
                  grains,
                  threads,
                  &error};
  pool.run(
      [](void *opaque, unsigned share, unsigned thread) {
        auto &c = *static_cast<Context *>(opaque);
        uint64_t range = share / sharesPerThread,
                 part = share % sharesPerThread;
        uint64_t first = c.grains * range / c.threads;
        uint64_t count = c.grains * (range + 1) / c.threads - first;
        auto cut = [&](uint64_t number) {
          uint64_t grains = (count * cuts[number] + 7) / 8;
          if (number > 0 && count - grains < leastGrains)
            grains = count;
          return (first + grains) * c.grain;
        };
        uint64_t begin = cut(part), end = cut(part + 1);
        if (begin == end)
          return;
        c.entry(c.buffers, c.scratch + thread * c.scratchStride, c.error,
                int64_t(begin), int64_t(std::min(end, c.items)));
      },
      &context, unsigned(threads * sharesPerThread));
}

Error Executor::run(char *const *buffers) { return execute(buffers, nullptr); }

Error Executor::profile(char *const *buffers, Profile &profile) {
  Error found = execute(buffers, &profile);
  // The launches after a failed check have no measurements; their entries
  // become 0.
  profile.nanoseconds.resize(plan.launches.size());
  profile.counts.resize(plan.launches.size() * profile.counters.size());
  return found;
}

static std::vector<uint64_t> readCounters(const std::vector<int> &counters) {
  std::vector<uint64_t> values;
  for (int counter : counters) {
    uint64_t value;
    bool isRead = read(counter, &value, sizeof value) == sizeof value;
    values.push_back(isRead ? value : UINT64_MAX);
  }
  return values;
}

Error Executor::execute(char *const *buffers, Profile *profile) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!arena || !scratch)
    return "out of memory: the program needs an arena of " +
           std::to_string(plan.arenaBytes) + " bytes and " +
           std::to_string(scratchStride) + " bytes of scratch per thread";
  FloatEnvironment environment;
  using Clock = std::chrono::steady_clock;
  error = 0;
  auto failed = [&]() -> Error {
    uint64_t number = uint64_t(error) - 1;
    return number < plan.messages.size() ? plan.messages[number]
                                         : "a check of the step failed";
  };
  for (const Launch &step : plan.launches) {
    if (step.check && error)
      return failed();
    if (!profile) {
      launch(step, buffers);
      continue;
    }
    std::vector<uint64_t> before = readCounters(profile->counters);
    auto start = Clock::now();
    launch(step, buffers);
    std::chrono::nanoseconds elapsed = Clock::now() - start;
    profile->nanoseconds.push_back(uint64_t(elapsed.count()));
    std::vector<uint64_t> after = readCounters(profile->counters);
    for (size_t i = 0; i < after.size(); ++i)
      profile->counts.push_back(before[i] == UINT64_MAX ||
                                        after[i] == UINT64_MAX
                                    ? UINT64_MAX
                                    : after[i] - before[i]);
  }
  return error ? failed() : Error();
}
