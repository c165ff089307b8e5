//===- ThreadPool.cpp - Persistent worker threads -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ThreadPool.h"

#include "FloatEnvironment.h"

using namespace repro_runtime;

static void pauseThread() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// Spins until `done` or for some ten microseconds.
template <typename Predicate>
static bool spin(Predicate done) {
  for (int i = 0; i < 4000; ++i) {
    if (done())
      return true;
    pauseThread();
  }
  return done();
}

ThreadPool::ThreadPool(unsigned threads) {
  for (unsigned i = 1; i < threads; ++i)
    workers.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stop = true;
    generation.fetch_add(1);
  }
  wake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::work(unsigned thread) {
  FloatEnvironment environment;
  uint64_t seen = 0;
  for (;;) {
    auto started = [&] { return generation.load() != seen; };
    if (!spin(started)) {
      std::unique_lock<std::mutex> lock(mutex);
      wake.wait(lock, started);
    }
    seen = generation.load();
    if (stop)
      return;
    if (thread < active)
      task(context, thread);
    if (running.fetch_sub(1) == 1) {
      // The lock orders this with the caller's decision to sleep.
      std::lock_guard<std::mutex> lock(mutex);
      finished.notify_one();
    }
  }
}

void ThreadPool::run(Task newTask, void *newContext, unsigned threads) {
  if (threads <= 1 || workers.empty()) {
    for (unsigned i = 0; i < threads; ++i)
      newTask(newContext, i);
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex);
    task = newTask;
    context = newContext;
    active = threads;
    running = unsigned(workers.size());
    generation.fetch_add(1);
  }
  wake.notify_all();
  newTask(newContext, 0);
  auto done = [&] { return running.load() == 0; };
  if (!spin(done)) {
    std::unique_lock<std::mutex> lock(mutex);
    finished.wait(lock, done);
  }
}
