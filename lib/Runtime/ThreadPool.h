//===- ThreadPool.h - Persistent worker threads -----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_THREADPOOL_H
#define REPRO_RUNTIME_THREADPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace repro_runtime {

/// Threads that live as long as the pool. Between loops they spin for some
/// microseconds before they sleep, so that a step of many short loops needs no
/// wake-ups. In each loop a thread starts with the same shares, whose data its
/// caches may contain; when it has finished them, it takes shares of other
/// threads. A loop waits only for threads that have started a share: on a busy
/// machine, the caller does all the work.
class ThreadPool {
public:
  using Task = void (*)(void *context, unsigned share, unsigned thread);

  explicit ThreadPool(unsigned threads);
  ~ThreadPool();

  unsigned size() const { return unsigned(workers.size()) + 1; }

  /// Calls the task once for each share from 0 to shares - 1, on any thread
  /// from 0 (the caller) to size() - 1. Each thread runs one share at a time.
  /// `shares` must not exceed 32768.
  void run(Task task, void *context, unsigned shares);

private:
  /// The remaining shares of one thread, in a cache line of their own. One
  /// atomic word contains the number of the loop (32 bits), the end of the
  /// shares (16) and the next share (16), so that a thread that takes a share
  /// knows to which loop it belongs.
  struct alignas(64) Queue {
    std::atomic<uint64_t> ticket{0};
  };

  void work(unsigned thread);
  void runShares(unsigned thread);
  bool runShare(Queue &queue, unsigned thread);

  std::vector<std::thread> workers;
  std::unique_ptr<Queue[]> queues;
  std::mutex mutex;
  std::condition_variable wake, done;
  alignas(64) std::atomic<uint32_t> loop{0};
  std::atomic<unsigned> sleepers{0};
  std::atomic<bool> callerSleeps{false}, stop{false};
  Task task = nullptr;
  void *context = nullptr;
  unsigned total = 0;
  int spins;
  alignas(64) std::atomic<unsigned> finished{0};
};

} // namespace repro_runtime

#endif // REPRO_RUNTIME_THREADPOOL_H
