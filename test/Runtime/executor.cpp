//===- executor.cpp - Steps of plans made by hand -------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// REQUIRES: native-tests
// RUN: %native/runtime-executor
//
//===----------------------------------------------------------------------===//

#include "Runtime/Executor.h"

#include "Expect.h"

#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace repro_runtime;

static void count(char *const *buffers, char *, int64_t *, int64_t begin,
                  int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    ++buffers[0][i];
}

/// Uses numbers of work items, grains (items per share) and threads that do not
/// divide each other.
static void testEveryItemRunsOnce() {
  for (uint64_t items : {0, 1, 7, 64, 1000})
    for (uint64_t grain : {1, 3, 64, 5000}) {
      Plan plan;
      plan.states = {{"x", "i8", {items}}};
      plan.kernels = {{"count", items, grain, 0}};
      plan.launches.assign(3, {0, false, {{Space::State, 0, 0}}});
      for (unsigned threads : {1, 2, 5, 16}) {
        Executor executor(plan, {}, {count}, threads);
        std::vector<char> state(items + 1);
        char *buffers[] = {state.data()};
        EXPECT(executor.run(buffers).empty());
        for (uint64_t i = 0; i < items; ++i)
          EXPECT(state[i] == 3);
        EXPECT(state[items] == 0);
      }
    }
}

/// A kernel that adds two numbers. The test adds state + input + constant with
/// two launches; the arena holds the intermediate sum, and each buffer has an
/// offset.
static void add(char *const *buffers, char *, int64_t *, int64_t, int64_t) {
  int32_t x, y, sum;
  std::memcpy(&x, buffers[0], 4);
  std::memcpy(&y, buffers[1], 4);
  sum = x + y;
  std::memcpy(buffers[2], &sum, 4);
}

static void testSpaces() {
  Plan plan;
  plan.arenaBytes = 64;
  plan.constantBytes = 8;
  plan.states = {{"s", "i32", {2}}, {"t", "i32", {2}}};
  plan.inputs = {{"x", "i32", {2}}};
  plan.outputs = {{"y", "i32", {2}}};
  plan.kernels = {{"add", 1, 1, 0}};
  BufferRef state{Space::State, 1, 4}, input{Space::Input, 0, 4},
      output{Space::Output, 0, 4}, arena{Space::Arena, 0, 32},
      constant{Space::Constant, 0, 4};
  plan.launches = {{0, false, {state, input, arena}},
                   {0, false, {arena, constant, output}}};
  int32_t s[] = {1, 2}, t[] = {10, 20}, x[] = {100, 200}, y[] = {0, 0};
  int32_t c[] = {1000, 2000};
  Bytes constants{reinterpret_cast<char *>(c), sizeof c};
  Executor executor(plan, constants, {add}, 2);
  char *buffers[] = {reinterpret_cast<char *>(s), reinterpret_cast<char *>(t),
                     reinterpret_cast<char *>(x), reinterpret_cast<char *>(y)};
  EXPECT(executor.run(buffers).empty());
  EXPECT(y[0] == 0 && y[1] == 20 + 200 + 2000);
}

/// Uses a launch with 100 buffers, which may be more than those for which the
/// executor has preallocated memory.
static void testManyBuffers() {
  Plan plan;
  plan.states = {{"x", "i8", {100}}};
  plan.kernels = {{"last", 1, 1, 0}};
  plan.launches = {{0, false, {}}};
  for (uint64_t i = 0; i < 100; ++i)
    plan.launches[0].buffers.push_back({Space::State, 0, i});
  Executor executor(
      plan, {}, {[](char *const *buffers, char *, int64_t *, int64_t, int64_t) {
        for (char i = 0; i < 100; ++i)
          *buffers[int(i)] = i;
      }},
      1);
  std::vector<char> state(100);
  char *buffers[] = {state.data()};
  EXPECT(executor.run(buffers).empty());
  for (char i = 0; i < 100; ++i)
    EXPECT(state[i] == i);
}

/// A kernel that fills its thread's scratch memory for each item, and records
/// whether the memory is aligned and no other thread changes it.
static void useScratch(char *const *buffers, char *scratch, int64_t *,
                       int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    std::memset(scratch, char(i), 100);
    bool isOwn = reinterpret_cast<uintptr_t>(scratch) % 64 == 0;
    for (unsigned repeat = 0; repeat < 20; ++repeat)
      for (unsigned k = 0; k < 100; ++k)
        isOwn &= static_cast<volatile char *>(scratch)[k] == char(i);
    buffers[0][i] = isOwn;
  }
}

static void testScratch() {
  constexpr uint64_t items = 2000;
  Plan plan;
  plan.states = {{"x", "i8", {items}}};
  plan.kernels = {{"small", items, 1, 0}, {"use", items, 1, 100}};
  plan.launches = {{1, false, {{Space::State, 0, 0}}}};
  Executor executor(plan, {}, {count, useScratch}, 4);
  std::vector<char> state(items);
  char *buffers[] = {state.data()};
  EXPECT(executor.run(buffers).empty());
  for (char isOwn : state)
    EXPECT(isOwn);
}

/// A kernel with one check. The kernel's input is the number of the message
/// with which the check fails, or 0 if the check succeeds.
static void fail(char *const *buffers, char *, int64_t *error, int64_t,
                 int64_t) {
  if (*buffers[0])
    *error = *buffers[0];
}

/// (E1) A step with a failed check ends before the next launch that is marked
/// to test the error word. The next step does not see the failure.
static void testFailedChecks() {
  Plan plan;
  plan.states = {{"n", "i8", {3}}};
  plan.inputs = {{"fails", "i8", {}}};
  plan.messages = {"first", "second"};
  plan.kernels = {{"count", 1, 1, 0}, {"fail", 1, 1, 0}};
  auto state = [](uint64_t offset) {
    return BufferRef{Space::State, 0, offset};
  };
  plan.launches = {{0, true, {state(0)}},
                   {1, false, {{Space::Input, 0, 0}}},
                   {0, false, {state(1)}},
                   {0, true, {state(2)}},
                   {0, false, {state(2)}}};
  int zeros = open("/dev/zero", O_RDONLY);
  for (unsigned threads : {1, 3}) {
    Executor executor(plan, {}, {count, fail}, threads);
    auto run = [&](char fails, const char *expected, std::string message) {
      char counts[3] = {0, 0, 0};
      char *buffers[] = {counts, &fails};
      Profile profile{{zeros, -1}, {}, {}};
      EXPECT(executor.run(buffers) == message);
      EXPECT(std::memcmp(counts, expected, 3) == 0);
      EXPECT(executor.profile(buffers, profile) == message);
      EXPECT(profile.nanoseconds.size() == plan.launches.size());
      EXPECT(profile.counts.size() == 2 * plan.launches.size());
      EXPECT(profile.counts[0] == 0 && profile.counts[1] == UINT64_MAX);
    };
    run(0, "\1\1\2", "");
    run(1, "\1\1\0", "first");
    run(2, "\1\1\0", "second");
    run(9, "\1\1\0", "a check of the step failed");
    run(0, "\1\1\2", "");
  }
  close(zeros);
  // If no launch tests the error word, the step runs all launches and then
  // fails.
  for (Launch &launch : plan.launches)
    launch.check = false;
  Executor executor(plan, {}, {count, fail}, 1);
  char counts[3] = {0, 0, 0}, fails = 2;
  char *buffers[] = {counts, &fails};
  EXPECT(executor.run(buffers) == "second");
  EXPECT(std::memcmp(counts, "\1\1\2", 3) == 0);
}

static void testOutOfMemory() {
  Plan plan;
  plan.arenaBytes = uint64_t(1) << 48;
  Executor executor(plan, {}, {}, 1);
  EXPECT_ERROR(executor.run(nullptr), "out of memory: the program needs an "
                                      "arena of 281474976710656 bytes");
}

int main() {
  testEveryItemRunsOnce();
  testSpaces();
  testManyBuffers();
  testScratch();
  testFailedChecks();
  testOutOfMemory();
}
