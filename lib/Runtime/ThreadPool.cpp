//===- ThreadPool.cpp - Persistent worker threads -------------------------===//
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

/// Spins, for a few microseconds at most, until `done` returns true. Returns
/// the last result of `done`.
template <typename Predicate>
static bool spin(int spins, Predicate done) {
  for (int i = 0; i < spins; ++i) {
    if (done())
      return true;
    pauseThread();
  }
  return done();
}

static unsigned getNext(uint64_t ticket) { return ticket & 0xffff; }
static unsigned getEnd(uint64_t ticket) { return ticket >> 16 & 0xffff; }

ThreadPool::ThreadPool(unsigned threads)
    : queues(new Queue[threads]),
      // With more threads than processors, a spinning thread delays the other
      // threads.
      spins(threads <= std::thread::hardware_concurrency() ? 2000 : 1) {
  for (unsigned i = 1; i < threads; ++i)
    workers.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

/// Takes a share from the queue and runs it. Returns false if the queue is
/// empty.
bool ThreadPool::runShare(Queue &queue, unsigned thread) {
  uint64_t seen = queue.ticket.load();
  if (getNext(seen) >= getEnd(seen))
    return false;
  seen = queue.ticket.fetch_add(1);
  unsigned share = getNext(seen);
  if (share >= getEnd(seen))
    return false;
  // The loop in the ticket cannot end before this share does, so `task`,
  // `context` and `total` still belong to that loop.
  unsigned shares = total;
  task(context, share, thread);
  if (finished.fetch_add(1) + 1 == shares && callerSleeps) {
    std::lock_guard<std::mutex> lock(mutex);
    done.notify_one();
  }
  return true;
}

/// Runs the thread's own shares, then takes shares from the other threads.
void ThreadPool::runShares(unsigned thread) {
  for (unsigned i = 0, threads = size(); i < threads; ++i)
    while (runShare(queues[(thread + i) % threads], thread))
      ;
}

void ThreadPool::work(unsigned thread) {
  FloatEnvironment environment;
  uint32_t seen = 0;
  for (;;) {
    auto hasNews = [&] { return loop.load() != seen || stop; };
    if (!spin(spins, hasNews)) {
      std::unique_lock<std::mutex> lock(mutex);
      // No wake-up is lost: the caller checks `sleepers` after it has set
      // `loop`, and this thread checks `loop` after it has incremented
      // `sleepers`.
      ++sleepers;
      wake.wait(lock, hasNews);
      --sleepers;
    }
    if (stop)
      return;
    seen = loop.load();
    runShares(thread);
  }
}

void ThreadPool::run(Task newTask, void *newContext, unsigned shares) {
  if (shares <= 1 || workers.empty()) {
    for (unsigned i = 0; i < shares; ++i)
      newTask(newContext, i, 0);
    return;
  }
  task = newTask;
  context = newContext;
  total = shares;
  finished = 0;
  uint32_t number = loop.load() + 1;
  for (uint64_t i = 0, threads = size(); i < threads; ++i) {
    uint64_t begin = shares * i / threads, end = shares * (i + 1) / threads;
    queues[i].ticket = uint64_t(number) << 32 | end << 16 | begin;
  }
  loop = number;
  if (sleepers) {
    // Take the lock so that no thread is between its check of `loop` and its
    // sleep, where it would miss the notification.
    std::lock_guard<std::mutex> lock(mutex);
    wake.notify_all();
  }
  runShares(0);
  auto isDone = [&] { return finished.load() == shares; };
  if (!spin(spins, isDone)) {
    std::unique_lock<std::mutex> lock(mutex);
    callerSleeps = true;
    done.wait(lock, isDone);
    callerSleeps = false;
  }
}
