//===- executor.cpp - The executor and the thread pool under a sanitizer --===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Steps of many short loops from several callers: each share runs once, a
// launch reads what the previous launch wrote, and a failed check ends the
// step.
//
//===----------------------------------------------------------------------===//

#include "Runtime/Executor.h"

#include <cstring>
#include <iostream>

using namespace repro_runtime;

static constexpr uint64_t items = 1000;
static constexpr int64_t limit = 1 << 20;

/// out[i] = in[i] + 1, through the scratch memory.
static void addOne(char *const *buffers, char *scratch, int64_t *,
                   int64_t begin, int64_t end) {
  auto *in = reinterpret_cast<const int64_t *>(buffers[0]);
  auto *out = reinterpret_cast<int64_t *>(buffers[1]);
  auto *sum = reinterpret_cast<int64_t *>(scratch);
  for (int64_t i = begin; i < end; ++i) {
    *sum = in[i];
    out[i] = *sum + 1;
  }
}

/// Fails the step if a number exceeds the limit.
static void check(char *const *buffers, char *, int64_t *error, int64_t begin,
                  int64_t end) {
  auto *in = reinterpret_cast<const int64_t *>(buffers[0]);
  for (int64_t i = begin; i < end; ++i)
    if (in[i] > limit)
      __atomic_store_n(error, 1, __ATOMIC_RELAXED);
}

static Plan makePlan(unsigned launches) {
  Plan plan;
  plan.arenaBytes = items * sizeof(int64_t);
  plan.states = {{"x", "i64", {items}}};
  plan.kernels = {{"check", items, 1, 0},
                  {"add_one", items, 1, sizeof(int64_t)}};
  plan.messages = {"too large"};
  BufferRef state{Space::State, 0, 0}, arena{Space::Arena, 0, 0};
  plan.launches.push_back({0, false, {state}});
  for (unsigned i = 0; i < launches; ++i) {
    plan.launches.push_back({1, true, {state, arena}});
    plan.launches.push_back({1, false, {arena, state}});
  }
  return plan;
}

int main() {
  for (unsigned threads : {1, 2, 3, 8})
    for (unsigned callers : {1, 3}) {
      constexpr unsigned launches = 20, steps = 20;
      Executor executor(makePlan(launches), {}, {check, addOne}, threads);
      std::vector<std::vector<int64_t>> states(callers,
                                               std::vector<int64_t>(items));
      std::vector<std::thread> others;
      for (std::vector<int64_t> &state : states)
        others.emplace_back([&] {
          char *buffers[] = {reinterpret_cast<char *>(state.data())};
          for (unsigned step = 0; step < steps; ++step)
            if (!executor.run(buffers).empty())
              std::abort();
          state[items / 2] = limit + 1;
          if (executor.run(buffers) != "too large")
            std::abort();
        });
      for (std::thread &other : others)
        other.join();
      for (const std::vector<int64_t> &state : states)
        for (uint64_t i = 0; i < items; ++i)
          if (i != items / 2 && state[i] != 2 * launches * steps) {
            std::cerr << "expected " << 2 * launches * steps << " at " << i
                      << ", got " << state[i] << "\n";
            return 1;
          }
    }
  std::cout << "executor and thread pool: right\n";
}
