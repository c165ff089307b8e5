//===- ThreadPool.h - Persistent worker threads ---------------------*- C++
//-*-===//
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
#include <mutex>
#include <thread>
#include <vector>

namespace repro_runtime {

/// Threads that live as long as the pool. Between two loops they spin for some
/// microseconds, then sleep, so that a step of many short loops pays no
/// wake-up. A loop waits for no thread that has not begun a share of it: where
/// the machine is busy otherwise, the caller does the work itself.
class ThreadPool {
public:
  using Task = void (*)(void *context, unsigned share, unsigned thread);

  explicit ThreadPool(unsigned threads);
  ~ThreadPool();

  unsigned size() const { return unsigned(workers.size()) + 1; }

  /// Calls the task once for each share from 0 to shares - 1, on any thread
  /// from 0 (the caller) to size() - 1; no thread runs two at once. At most
  /// 65535 shares.
  void run(Task task, void *context, unsigned shares);

private:
  void work(unsigned thread);
  bool runShare(unsigned thread);

  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake, done;
  /// The number of the loop (32 bits), its shares (16) and how many are taken
  /// (16), in one word: whoever takes one knows of which loop.
  std::atomic<uint64_t> ticket{0};
  std::atomic<unsigned> finished{0}, sleepers{0};
  std::atomic<bool> callerSleeps{false}, stop{false};
  Task task = nullptr;
  void *context = nullptr;
  int spins;
};

} // namespace repro_runtime

#endif // REPRO_RUNTIME_THREADPOOL_H
