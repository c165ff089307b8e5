//===- ThreadPool.h - Persistent worker threads ---------------------*- C++ -*-===//
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
/// microseconds, then sleep, so that a step of many short loops pays no wake-up.
class ThreadPool {
public:
  using Task = void (*)(void *context, unsigned thread);

  explicit ThreadPool(unsigned threads);
  ~ThreadPool();

  unsigned size() const { return unsigned(workers.size()) + 1; }

  /// Calls task(context, 0) to task(context, threads - 1), each on a thread of
  /// its own, number 0 on the caller's. `threads` is at most size().
  void run(Task task, void *context, unsigned threads);

private:
  void work(unsigned thread);

  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake, finished;
  /// Counts the loops; a change is the sign to start.
  std::atomic<uint64_t> generation{0};
  std::atomic<unsigned> running{0};
  std::atomic<bool> stop{false};
  Task task = nullptr;
  void *context = nullptr;
  unsigned active = 0;
};

} // namespace repro_runtime

#endif // REPRO_RUNTIME_THREADPOOL_H
