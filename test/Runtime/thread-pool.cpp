//===- thread-pool.cpp - Shares of loops on threads -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// REQUIRES: native-tests
// RUN: %native/runtime-thread-pool
//
//===----------------------------------------------------------------------===//

#include "Runtime/ThreadPool.h"

#include "Expect.h"

using namespace repro_runtime;

namespace {
/// Records how often each share of a loop ran, and whether no thread ran two
/// shares at once.
struct Record {
  explicit Record(unsigned shares, unsigned threads)
      : runs(shares), isBusy(threads) {}

  std::vector<std::atomic<unsigned>> runs;
  std::vector<std::atomic<bool>> isBusy;
  std::atomic<bool> isRight{true};

  static void run(void *context, unsigned share, unsigned thread) {
    auto &record = *static_cast<Record *>(context);
    if (thread >= record.isBusy.size() || share >= record.runs.size() ||
        record.isBusy[thread].exchange(true)) {
      record.isRight = false;
      return;
    }
    ++record.runs[share];
    record.isBusy[thread] = false;
  }
};
} // namespace

static void testEveryShareRunsOnce() {
  for (unsigned threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT(pool.size() == threads);
    for (unsigned shares : {0, 1, 2, 3, 5, 8, 64, 1000, 32768})
      for (unsigned repeat = 0; repeat < 20; ++repeat) {
        Record record(shares, threads);
        pool.run(Record::run, &record, shares);
        EXPECT(record.isRight);
        for (const std::atomic<unsigned> &runs : record.runs)
          EXPECT(runs == 1);
      }
  }
}

/// Each share reads a value that another thread may have written in the
/// previous loop.
static void testLoopsFollowEachOther() {
  ThreadPool pool(4);
  std::vector<uint64_t> values(64, 0), sums(64, 0);
  struct Context {
    std::vector<uint64_t> &from, &to;
  };
  for (unsigned step = 0; step < 2000; ++step) {
    Context context{step % 2 ? sums : values, step % 2 ? values : sums};
    pool.run(
        [](void *opaque, unsigned share, unsigned) {
          auto &c = *static_cast<Context *>(opaque);
          c.to[share] = c.from[(share + 1) % c.from.size()] + 1;
        },
        &context, 64);
  }
  for (uint64_t value : values)
    EXPECT(value == 2000);
}

/// One thread stays in share 0 until all other shares have run, so another
/// thread must take over the shares that were assigned to the first one.
static void testSharesAreTakenOver() {
  constexpr unsigned shares = 64;
  ThreadPool pool(2);
  std::atomic<unsigned> done{0};
  pool.run(
      [](void *context, unsigned share, unsigned) {
        auto &done = *static_cast<std::atomic<unsigned> *>(context);
        while (share == 0 && done != shares - 1)
          std::this_thread::yield();
        ++done;
      },
      &done, shares);
  EXPECT(done == shares);
}

/// Destroys a pool whose threads sleep, and one directly after a loop.
static void testEnd() {
  for (unsigned repeat = 0; repeat < 50; ++repeat) {
    ThreadPool idle(3);
    ThreadPool pool(3);
    Record record(8, 3);
    pool.run(Record::run, &record, 8);
    EXPECT(record.isRight);
  }
}

int main() {
  testEveryShareRunsOnce();
  testLoopsFollowEachOther();
  testSharesAreTakenOver();
  testEnd();
}
