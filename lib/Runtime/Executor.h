//===- Executor.h - Runs the launches of a plan on CPUs ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_EXECUTOR_H
#define REPRO_RUNTIME_EXECUTOR_H

#include "Plan.h"
#include "ThreadPool.h"

#include <memory>
#include <mutex>

namespace repro_runtime {

/// The entry of a kernel: work items [begin, end) on `buffers`, with a scratch
/// of Kernel::scratchBytes bytes aligned to 64. A failed check stores its
/// message number + 1 in *error.
using KernelEntry = void (*)(char *const *buffers, char *scratch,
                             int64_t *error, int64_t begin, int64_t end);

/// What is measured of the launches of a step, launch after launch.
struct Profile {
  /// File descriptors that give a value as eight bytes (perf_event_open).
  std::vector<int> counters;
  std::vector<uint64_t> nanoseconds;
  /// How far each counter went on; UINT64_MAX: it could not be read.
  std::vector<uint64_t> counts;
};

/// Runs one program. The objects of the artifact are loaded by the caller.
class Executor {
public:
  /// `plan` is one that readPlan could give, for a CPU; `kernels` are the
  /// entries of its kernels in their order; the bytes of
  /// `constants` must outlive the executor. `threads` is at least 1.
  Executor(Plan plan, Bytes constants, std::vector<KernelEntry> kernels,
           unsigned threads);
  ~Executor();

  const Plan &getPlan() const { return plan; }
  unsigned getThreads() const { return pool.size(); }

  /// One step on the states, inputs and outputs in this order. (E1) after an
  /// error the states are as before. Calls from several threads take turns.
  Error run(char *const *buffers);

  /// The same, and what each launch took.
  Error profile(char *const *buffers, Profile &profile);

private:
  struct Free {
    void operator()(char *memory) const;
  };
  using Memory = std::unique_ptr<char, Free>;
  static Memory allocate(uint64_t bytes);

  Error execute(char *const *buffers, Profile *profile);
  void launch(const Launch &launch, char *const *buffers);

  Plan plan;
  Bytes constants;
  std::vector<KernelEntry> kernels;
  ThreadPool pool;
  std::mutex mutex;
  Memory arena, scratch;
  uint64_t scratchStride;
  int64_t error = 0;
};

} // namespace repro_runtime

#endif // REPRO_RUNTIME_EXECUTOR_H
