//===- plan.cpp - Launch plans as bytes -----------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// REQUIRES: native-tests
// RUN: %native/runtime-plan
//
//===----------------------------------------------------------------------===//

#include "Runtime/Plan.h"

#include "Expect.h"
#include "Plans.h"

using namespace repro_runtime;

static Error read(const std::string &bytes) {
  Plan plan;
  return readPlan({bytes.data(), bytes.size()}, plan);
}

/// Writes a plan, reads it back and compares all fields.
static void testRoundTrip(const Plan &plan) {
  std::string bytes = writePlan(plan);
  Plan found;
  EXPECT(readPlan({bytes.data(), bytes.size()}, found).empty());
  EXPECT(writePlan(found) == bytes);
  EXPECT(found.processor == plan.processor);
  EXPECT(found.arenaBytes == plan.arenaBytes);
  EXPECT(found.constantBytes == plan.constantBytes);
  EXPECT(found.messages == plan.messages);
  EXPECT(found.states.size() == plan.states.size());
  for (size_t i = 0; i < plan.states.size(); ++i) {
    EXPECT(found.states[i].name == plan.states[i].name);
    EXPECT(found.states[i].element == plan.states[i].element);
    EXPECT(found.states[i].shape == plan.states[i].shape);
  }
  EXPECT(found.inputs.size() == plan.inputs.size());
  EXPECT(found.outputs.size() == plan.outputs.size());
  EXPECT(found.kernels.size() == plan.kernels.size());
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel &got = found.kernels[i], &want = plan.kernels[i];
    EXPECT(got.name == want.name);
    EXPECT(got.items == want.items && got.grain == want.grain);
    EXPECT(got.scratchBytes == want.scratchBytes);
    EXPECT(got.block == want.block && got.sharedBytes == want.sharedBytes);
  }
  EXPECT(found.launches.size() == plan.launches.size());
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    const Launch &got = found.launches[i], &want = plan.launches[i];
    EXPECT(got.kernel == want.kernel && got.check == want.check);
    EXPECT(got.grid == want.grid);
    EXPECT(got.buffers.size() == want.buffers.size());
    for (size_t k = 0; k < want.buffers.size(); ++k) {
      EXPECT(got.buffers[k].space == want.buffers[k].space);
      EXPECT(got.buffers[k].index == want.buffers[k].index);
      EXPECT(got.buffers[k].offset == want.buffers[k].offset);
    }
  }
}

static void testSizes() {
  EXPECT((Tensor{"", "bf16", {3, 5}}).getBytes() == 30);
  EXPECT((Tensor{"", "i1", {0, 7}}).getBytes() == 0);
  EXPECT((Tensor{"", "f64", {}}).getBytes() == 8);
}

/// Checks that the reader refuses the plan after `change`, for the given
/// reason.
template <typename Change>
static void testDamage(Plan plan, const char *reason, Change change) {
  change(plan);
  EXPECT_ERROR(read(writePlan(plan)),
               std::string("damaged launch plan: ") + reason);
}

static void testDamages() {
  constexpr uint64_t tooMuch = (uint64_t(1) << 48) + 1;
  const Plan host = makeHostPlan(), device = makeDevicePlan();
  const char *arena = "its arena or its constants have more than 2^48 bytes";
  testDamage(host, arena, [](Plan &p) { p.arenaBytes = tooMuch; });
  testDamage(device, arena, [](Plan &p) { p.constantBytes = tooMuch; });

  testDamage(host, "state 0 has elements of an unknown type",
             [](Plan &p) { p.states[0].element = "f33"; });
  testDamage(host, "input 0 has more than 2^48 bytes",
             [](Plan &p) { p.inputs[0].shape = {uint64_t(1) << 47, 0, 4}; });
  testDamage(host, "output 0 has more than 2^48 bytes",
             [](Plan &p) { p.outputs[0].shape = {~uint64_t(0)}; });

  const char *noWork = "kernel 0 has no grain, or more than 2^48 work items";
  testDamage(host, noWork, [](Plan &p) { p.kernels[0].grain = 0; });
  testDamage(host, noWork, [](Plan &p) { p.kernels[0].grain = tooMuch; });
  testDamage(host, noWork, [](Plan &p) { p.kernels[0].items = tooMuch; });
  testDamage(host, "kernel 0 has more than 2^48 bytes of scratch",
             [](Plan &p) { p.kernels[0].scratchBytes = tooMuch; });
  const char *block = "kernel 1 has a block of no thread, or of more than 1024";
  testDamage(device, block, [](Plan &p) { p.kernels[1].block[2] = 0; });
  testDamage(device, block, [](Plan &p) { p.kernels[1].block[1] = 1025; });
  testDamage(device, block, [](Plan &p) { p.kernels[1].block = {32, 4, 9}; });
  testDamage(device, block, [](Plan &p) { p.kernels[1].block.fill(~0u); });

  testDamage(host, "launch 1 is of kernel 2, of 2",
             [](Plan &p) { p.launches[1].kernel = 2; });
  testDamage(device, "launch 1 has a grid without blocks",
             [](Plan &p) { p.launches[1].grid[1] = 0; });
  for (size_t i = 0; i < host.launches[0].buffers.size(); ++i) {
    testDamage(host, "launch 0 has a buffer at byte",
               [&](Plan &p) { p.launches[0].buffers[i].index = 1; });
    testDamage(device, "launch 0 has a buffer at byte",
               [&](Plan &p) { ++p.launches[0].buffers[i].offset; });
    testDamage(host, "launch 0 has a buffer at byte",
               [&](Plan &p) { p.launches[0].buffers[i].space = Space(5); });
  }
}

static void testTexts() {
  const Plan host = makeHostPlan();
  // A truncated character, overlong encodings, a surrogate, a code point beyond
  // U+10FFFF, bytes that cannot begin a character, and a character without its
  // last byte.
  for (const char *text :
       {"\xe2\x88", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\xff", "\x80", "\xc3("}) {
    testDamage(host, "message 1 is not UTF-8",
               [&](Plan &p) { p.messages[1] = text; });
    testDamage(host, "kernel 0 has a name that is not UTF-8",
               [&](Plan &p) { p.kernels[0].name = text; });
    testDamage(host, "state 0 has a name that is not UTF-8",
               [&](Plan &p) { p.states[0].name = text; });
  }
  Plan plan = host;
  plan.messages = {"\x7f \xc2\x80 \xed\x9f\xbf \xee\x80\x80 \xf4\x8f\xbf\xbf"};
  EXPECT(read(writePlan(plan)).empty());
}

static void testBytes(const Plan &plan) {
  const std::string bytes = writePlan(plan);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_ERROR(read(bytes.substr(0, size)), "launch plan");
  EXPECT_ERROR(read(bytes + '\0'), "1 bytes after its end");
  auto changed = [&](size_t at, uint32_t number) {
    std::string result = bytes;
    for (unsigned i = 0; i < 4; ++i)
      result[at + i] = char(number >> (8 * i));
    return result;
  };
  EXPECT_ERROR(read(changed(0, 0)), "not a launch plan");
  EXPECT_ERROR(read(changed(12, 2)), "launch plan of version 2, expected 1");
  EXPECT_ERROR(read(changed(16, 2)), "processor of number 2");
  // Replaces each number. The reader must not allocate memory for data that is
  // absent, and must refuse any other encoding of a plan than the writer's.
  for (size_t at = 0; at + 4 <= bytes.size(); ++at)
    for (uint32_t number : {0u, 1u, 5u, 0xffffu, 0x7fffffffu, 0xffffffffu}) {
      std::string input = changed(at, number);
      Plan found;
      if (readPlan({input.data(), input.size()}, found).empty())
        EXPECT(writePlan(found) == input);
    }
}

/// The last launch has no buffers, so its flags are 8 bytes before the end.
static void testFlags() {
  std::string bytes = writePlan(makeHostPlan());
  bytes[bytes.size() - 8] = 2;
  EXPECT_ERROR(read(bytes), "a count or a flag in it is too large");
}

int main() {
  testRoundTrip(Plan());
  testRoundTrip(makeHostPlan());
  testRoundTrip(makeDevicePlan());
  testSizes();
  testDamages();
  testTexts();
  testBytes(makeHostPlan());
  testBytes(makeDevicePlan());
  testFlags();
}
