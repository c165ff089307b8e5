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

/// The entry point of a kernel: computes the work items [begin, end) on
/// `buffers`. `scratch` points to Kernel::scratchBytes bytes, aligned to 64. A
/// failed check stores the number of its message + 1 in *error.
using KernelEntry = void (*)(char *const *buffers, char *scratch,
                             int64_t *error, int64_t begin, int64_t end);

/// Measurements of the launches of a step, in launch order.
struct Profile {
  /// One file descriptor (perf_event_open) per counter. Reading the descriptor
  /// gives the value of the counter as eight bytes.
  std::vector<int> counters;
  std::vector<uint64_t> nanoseconds;
  /// The increase of each counter during each launch; UINT64_MAX if the counter
  /// could not be read.
  std::vector<uint64_t> counts;
};

/// Runs one program. The caller has loaded the objects of the artifact.
class Executor {
public:
  /// `plan` is a valid plan for a CPU (see readPlan), and `kernels` are the
  /// entry points of its kernels in the order of the plan. The bytes of
  /// `constants` must outlive the executor. `threads` is at least 1.
  Executor(Plan plan, Bytes constants, std::vector<KernelEntry> kernels,
           unsigned threads);
  ~Executor();

  const Plan &getPlan() const { return plan; }
  unsigned getThreads() const { return pool.size(); }

  /// Runs one step; `buffers` lists the states, inputs and outputs in this
  /// order. (E1) After an error the states are unchanged. Concurrent calls are
  /// serialized.
  Error run(char *const *buffers);

  /// Runs one step and measures each launch.
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
