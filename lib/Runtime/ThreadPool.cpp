//===- ThreadPool.cpp - Persistent worker threads -------------------*- C++
//-*-===//
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

/// Spins until `done` or for some microseconds.
template <typename Predicate>
static bool spin(int spins, Predicate done) {
  for (int i = 0; i < spins; ++i) {
    if (done())
      return true;
    pauseThread();
  }
  return done();
}

static unsigned getTaken(uint64_t ticket) { return ticket & 0xffff; }
static unsigned getShares(uint64_t ticket) { return ticket >> 16 & 0xffff; }
static uint64_t getLoop(uint64_t ticket) { return ticket >> 32; }

ThreadPool::ThreadPool(unsigned threads)
    // With more threads than processors, spinning takes time from the others.
    : spins(threads <= std::thread::hardware_concurrency() ? 2000 : 1) {
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

/// Takes a share and runs it; false if none is left.
bool ThreadPool::runShare(unsigned thread) {
  uint64_t seen = ticket.load();
  if (getTaken(seen) >= getShares(seen))
    return false;
  seen = ticket.fetch_add(1);
  unsigned share = getTaken(seen), shares = getShares(seen);
  if (share >= shares)
    return false;
  // From here to the end of the share the loop cannot end, so that task and
  // context are those of the ticket's loop.
  task(context, share, thread);
  if (finished.fetch_add(1) + 1 == shares && callerSleeps) {
    std::lock_guard<std::mutex> lock(mutex);
    done.notify_one();
  }
  return true;
}

void ThreadPool::work(unsigned thread) {
  FloatEnvironment environment;
  uint64_t seen = 0;
  for (;;) {
    auto hasNews = [&] { return getLoop(ticket.load()) != seen || stop; };
    if (!spin(spins, hasNews)) {
      std::unique_lock<std::mutex> lock(mutex);
      // The caller looks for sleepers after it has set the ticket, and this
      // thread looks at the ticket after it has counted itself.
      ++sleepers;
      wake.wait(lock, hasNews);
      --sleepers;
    }
    if (stop)
      return;
    seen = getLoop(ticket.load());
    while (runShare(thread))
      ;
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
  finished = 0;
  ticket = (getLoop(ticket.load()) + 1) << 32 | uint64_t(shares) << 16;
  if (sleepers) {
    // The lock orders this with a thread that is about to sleep.
    std::lock_guard<std::mutex> lock(mutex);
    wake.notify_all();
  }
  while (runShare(0))
    ;
  auto isDone = [&] { return finished.load() == shares; };
  if (!spin(spins, isDone)) {
    std::unique_lock<std::mutex> lock(mutex);
    callerSleeps = true;
    done.wait(lock, isDone);
    callerSleeps = false;
  }
}
