//===- core-plan.cpp - Plans of many cores as bytes -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// REQUIRES: native-tests
// RUN: %native/simulator-core-plan
//
//===----------------------------------------------------------------------===//

#include "../Runtime/Expect.h"
#include "CorePlans.h"
#include "Runtime/Artifact.h"
#include "Runtime/ByteStream.h"

using namespace repro_simulator;

static constexpr size_t headerBytes = 24;

static Error read(const std::string &bytes) {
  CorePlan plan;
  return readCorePlan({bytes.data(), bytes.size()}, plan);
}

/// Returns the bytes with the checksum that they need.
static std::string seal(const std::string &bytes) {
  if (bytes.size() < headerBytes)
    return bytes;
  repro_runtime::ByteWriter sum;
  sum.u64(repro_runtime::checksum(bytes.data() + headerBytes,
                                  bytes.size() - headerBytes));
  return bytes.substr(0, 16) + sum.bytes + bytes.substr(headerBytes);
}

static void testRoundTrip() {
  const CorePlan plan = makeCorePlan();
  const std::string bytes = writeCorePlan(plan);
  CorePlan found;
  EXPECT(readCorePlan({bytes.data(), bytes.size()}, found).empty());
  EXPECT(writeCorePlan(found) == bytes);
  EXPECT(found.machine == "{}" && found.level == "x86-64-v2");
  EXPECT(found.states[0].name == "w" && found.arenaBytes == 128);
  EXPECT(found.inputs.size() == 1 && found.outputs.size() == 1);
  EXPECT(found.constants == plan.constants && found.messages == plan.messages);
  EXPECT(found.objects == plan.objects);
  EXPECT(found.kernels.size() == 2 && found.kernels[0].name == "k");
  const TileKernel &kernel = found.kernels[0];
  EXPECT(kernel.items == 7 && kernel.scratchBytes == 128);
  EXPECT(kernel.codeBytes == 300 && kernel.cycles == 1000 && kernel.hasChecks);
  EXPECT(kernel.buffers[0].bytes == 64 && kernel.buffers[0].access == 1);
  EXPECT(kernel.buffers[1].bytes == 32 && kernel.buffers[1].access == 2);
  const CoreProgram &program = found.programs[0];
  EXPECT((found.programs[1].core == Core{1, 2}));
  EXPECT(program.localBytes == 1024 && program.codeBytes == 350 &&
         program.scratchOffset == 512);
  EXPECT(program.scratchBytes == 128 && program.errorOffset == 1016);
  const auto &copy = std::get<Copy>(program.ops[0]);
  EXPECT(copy.from.memory == Memory::State && copy.from.offset == 16);
  EXPECT(copy.to.memory == Memory::Local && copy.elementBytes == 4);
  EXPECT((copy.extents == std::vector<uint64_t>{4, 4}));
  EXPECT((copy.fromStrides == std::vector<uint64_t>{32, 4}));
  EXPECT((copy.toStrides == std::vector<uint64_t>{16, 4}));
  EXPECT(std::get<Wait>(program.ops[3]).transfer == 1);
  EXPECT(
      (std::get<Run>(program.ops[4]).offsets == std::vector<uint64_t>{0, 64}));
  const auto &send = std::get<Send>(program.ops[5]);
  EXPECT(send.from == 64 && send.bytes == 32 && send.to == 992);
  EXPECT(send.counter == 5 && (send.cores == std::vector<Core>{{1, 2}}));
  EXPECT(std::get<Release>(program.ops[9]).counter == 4000000000);
  EXPECT(std::get<Acquire>(program.ops[10]).count == 1);
  const auto &words = std::get<Check>(found.programs[1].ops[2]);
  EXPECT(words.offset == 1000 && words.words == 3);
}

/// Checks that the reader refuses the plan after `change`, for the given
/// reason.
template <typename Change>
static void testDamage(const char *reason, Change change) {
  CorePlan plan = makeCorePlan();
  change(plan);
  EXPECT_ERROR(read(writeCorePlan(plan)),
               std::string("damaged core plan: ") + reason);
}

/// The same for a change of operation `index` of the first program.
template <typename Op, typename Change>
static void testOp(size_t index, const std::string &reason, Change change) {
  std::string expected = "program of core (0, 0): operation " +
                         std::to_string(index) + " " + reason;
  testDamage(expected.c_str(), [&](CorePlan &plan) {
    change(std::get<Op>(plan.programs[0].ops[index]));
  });
}

constexpr uint64_t tooMuch = (uint64_t(1) << 48) + 1;

static void testPlan() {
  testDamage("its machine or its CPU level is not UTF-8",
             [](CorePlan &p) { p.machine = "\xff"; });
  testDamage("its machine or its CPU level is not UTF-8",
             [](CorePlan &p) { p.level = "\xff"; });
  testDamage("its arena has more than 2^48 bytes",
             [](CorePlan &p) { p.arenaBytes = tooMuch; });
  testDamage("has no code", [](CorePlan &p) { p.objects.clear(); });
  testDamage("has two programs of core (0, 0)",
             [](CorePlan &p) { p.programs[1].core = {0, 0}; });
  testDamage("state 0 has elements of an unknown type",
             [](CorePlan &p) { p.states[0].element = "f33"; });
  testDamage("input 0 has more than 2^48 bytes",
             [](CorePlan &p) { p.inputs[0].shape = {tooMuch}; });
  testDamage("output 0 has a name that is not UTF-8",
             [](CorePlan &p) { p.outputs[0].name = "\xff"; });
  testDamage("message 0 is not UTF-8",
             [](CorePlan &p) { p.messages[0] = "\xff"; });
}

static void testKernels() {
  testDamage("kernel 1 has a name that is not UTF-8",
             [](CorePlan &p) { p.kernels[1].name = "\xff"; });
  const char *numbers = "kernel 1 has more than 2^48 work items, bytes or "
                        "cycles";
  testDamage(numbers, [](CorePlan &p) { p.kernels[1].items = tooMuch; });
  testDamage(numbers, [](CorePlan &p) { p.kernels[1].scratchBytes = tooMuch; });
  testDamage(numbers, [](CorePlan &p) { p.kernels[1].codeBytes = tooMuch; });
  testDamage(numbers, [](CorePlan &p) { p.kernels[1].cycles = tooMuch; });
  testDamage("kernel 1 has more than 2^30 bytes of scratch memory",
             [](CorePlan &p) { p.kernels[1].scratchBytes = (1 << 30) + 1; });
  testDamage("kernel 0 has a buffer of more than 2^48 bytes",
             [](CorePlan &p) { p.kernels[0].buffers[1].bytes = tooMuch; });
  for (uint32_t access : {0u, 4u})
    testDamage("kernel 0 has a buffer with access",
               [&](CorePlan &p) { p.kernels[0].buffers[1].access = access; });
}

static void testMemories() {
  auto test = [](const char *reason, auto change) {
    testDamage((std::string("program of core (0, 0): ") + reason).c_str(),
               [&](CorePlan &p) { change(p.programs[0]); });
  };
  const char *tooLarge = "has more than 2^48 bytes of memory or code";
  test(tooLarge, [](CoreProgram &p) { p.localBytes = tooMuch; });
  test(tooLarge, [](CoreProgram &p) { p.codeBytes = tooMuch; });
  test("operation 4 runs a kernel with 300 bytes of code, of 299",
       [](CoreProgram &p) { p.codeBytes = 299; });
  const char *scratch = "has scratch memory outside of its memory, or not at a "
                        "multiple of 64";
  test(scratch, [](CoreProgram &p) { p.scratchOffset = 32; });
  test(scratch, [](CoreProgram &p) { p.scratchOffset = 1088; });
  test(scratch, [](CoreProgram &p) { p.scratchBytes = 513; });
  test(scratch, [](CoreProgram &p) { p.scratchBytes = ~uint64_t(0); });
  const char *error = "has an error word outside of its memory, or not at a "
                      "multiple of 8";
  test(error, [](CoreProgram &p) { p.errorOffset = 1024; });
  test(error, [](CoreProgram &p) { p.errorOffset = 1012; });
  test(error, [](CoreProgram &p) { p.errorOffset = ~uint64_t(7); });
  test("has no wait for transfer 2",
       [](CoreProgram &p) { p.ops.erase(p.ops.begin() + 8); });
}

static void testCopies() {
  testOp<Copy>(0, "has different numbers of extents and strides",
               [](Copy &c) { c.extents.pop_back(); });
  testOp<Copy>(0, "has different numbers of extents and strides",
               [](Copy &c) { c.toStrides.push_back(1); });
  for (uint32_t bytes : {0u, 3u, 16u})
    testOp<Copy>(0, "has elements of " + std::to_string(bytes) + " bytes",
                 [&](Copy &c) { c.elementBytes = bytes; });
  testOp<Copy>(0, "copies without the core's memory",
               [](Copy &c) { c.to = {Memory::Arena, 0, 0}; });
  testOp<Copy>(6, "writes an input or a constant",
               [](Copy &c) { c.to = {Memory::Input, 0, 0}; });
  testOp<Copy>(6, "writes an input or a constant",
               [](Copy &c) { c.to = {Memory::Constant, 0, 0}; });
  testOp<Copy>(6, "writes the memory of another core",
               [](Copy &c) { c.to = {Memory::Remote, 1, 0}; });
  testOp<Copy>(0, "reads the program's own memory as that of another core",
               [](Copy &c) { c.from = {Memory::Remote, 0, 0}; });
  testOp<Copy>(0,
               "is of a buffer of number 2 in memory 6, which does not exist",
               [](Copy &c) { c.from = {Memory::Remote, 2, 0}; });
  testOp<Copy>(0, "is of 112 bytes at byte 1024 of a memory of 1024",
               [](Copy &c) { c.from = {Memory::Remote, 1, 1024}; });
  testOp<Copy>(0,
               "is of a buffer of number 1 in memory 0, which does not exist",
               [](Copy &c) { c.from.index = 1; });
  for (size_t op : {0, 2})
    testOp<Copy>(op, "is of a buffer of number 7 in memory 5",
                 [](Copy &c) { c.to.index = 7; });
  testOp<Copy>(0, "is of 112 bytes at byte 20 of a memory of 128",
               [](Copy &c) { c.from.offset = 20; });
  testOp<Copy>(0, "is of 64 bytes at byte 961 of a memory of 1024",
               [](Copy &c) { c.to.offset = 961; });
  testOp<Copy>(0, "is of 0 bytes at byte 129 of a memory of 128", [](Copy &c) {
    c.extents[0] = 0;
    c.from.offset = 129;
  });
  testOp<Copy>(0, "is of more than 2^48 bytes",
               [](Copy &c) { c.fromStrides[1] = ~uint64_t(0); });
  testOp<Copy>(0, "is of more than 2^48 bytes",
               [](Copy &c) { c.extents = {tooMuch, tooMuch}; });
  testOp<Copy>(0, "writes bytes twice", [](Copy &c) { c.toStrides = {12, 4}; });
  testOp<Copy>(0, "writes bytes twice", [](Copy &c) { c.toStrides = {16, 0}; });
  // A read may repeat elements, and the order of the loops is free.
  CorePlan plan = makeCorePlan();
  auto &copy = std::get<Copy>(plan.programs[0].ops[0]);
  copy.fromStrides = {0, 4};
  copy.toStrides = {4, 16};
  EXPECT(read(writeCorePlan(plan)).empty());
}

static void testOtherOps() {
  testOp<Wait>(1, "waits for transfer 1 of 1", [](Wait &w) { w.transfer = 1; });
  testOp<Wait>(3, "waits for transfer 0 again",
               [](Wait &w) { w.transfer = 0; });
  testOp<Run>(4, "runs kernel 2 of 2", [](Run &r) { r.kernel = 2; });
  testOp<Run>(4, "has 2 buffers for a kernel that takes 0",
              [](Run &r) { r.kernel = 1; });
  testOp<Run>(4, "has a buffer of 64 bytes at byte 961 of a memory of 1024",
              [](Run &r) { r.offsets[0] = 961; });
  testOp<Run>(4, "has a buffer of 32 bytes",
              [](Run &r) { r.offsets[1] = ~uint64_t(0); });
  testDamage("program of core (0, 0): operation 4 runs a kernel with 129 bytes "
             "of scratch memory, of 128",
             [](CorePlan &p) { p.kernels[0].scratchBytes = 129; });
  testOp<Send>(5, "is for no core", [](Send &s) { s.cores.clear(); });
  testOp<Send>(5, "is for core (2, 1), which has no program",
               [](Send &s) { s.cores = {{2, 1}}; });
  testOp<Send>(5, "is for core (1, 2) twice",
               [](Send &s) { s.cores = {{1, 2}, {1, 2}}; });
  testOp<Send>(5, "sends to its own core", [](Send &s) { s.cores = {{0, 0}}; });
  testOp<Send>(5, "sends 32 bytes at byte 993 of a memory of 1024",
               [](Send &s) { s.from = 993; });
  testOp<Send>(5, "sends to core (1, 2) 32 bytes at byte 993 of a memory of",
               [](Send &s) { s.to = 993; });
  testOp<Release>(9, "is for no core", [](Release &r) { r.cores.clear(); });
  testOp<Release>(9, "is for core (3, 0), which has no program",
                  [](Release &r) { r.cores[0] = {3, 0}; });
  testOp<Acquire>(10, "waits for a count of 0",
                  [](Acquire &a) { a.count = 0; });
  for (Check check : {Check{1004, 1}, Check{1008, 3}, Check{1032, 0},
                      Check{0, uint64_t(1) << 61}})
    testDamage("program of core (1, 2): operation 2 checks words outside of "
               "the memory",
               [&](CorePlan &p) { p.programs[1].ops[2] = check; });
}

static void testBytes() {
  const std::string bytes = writeCorePlan(makeCorePlan());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_ERROR(read(bytes.substr(0, size)), "core plan");
    EXPECT_ERROR(read(seal(bytes.substr(0, size))), "core plan");
  }
  EXPECT_ERROR(read(seal(bytes + '\0')), "1 bytes after its end");
  auto changed = [&](size_t at, uint32_t number) {
    std::string result = bytes;
    for (unsigned i = 0; i < 4; ++i)
      result[at + i] = char(number >> (8 * i));
    return result;
  };
  EXPECT_ERROR(read(changed(0, 0)), "not a core plan");
  EXPECT_ERROR(read(changed(12, 2)), "core plan of version 2, expected 1");
  EXPECT_ERROR(read(changed(bytes.size() - 4, 7)), "its checksum is wrong");
  // Replaces each number. The reader must not allocate memory for data that is
  // absent, and must refuse any other encoding of a plan than the writer's.
  for (size_t at = headerBytes; at + 4 <= bytes.size(); ++at)
    for (uint32_t number : {0u, 1u, 5u, 0xffffu, 0x7fffffffu, 0xffffffffu}) {
      std::string input = seal(changed(at, number));
      CorePlan found;
      if (readCorePlan({input.data(), input.size()}, found).empty())
        EXPECT(writeCorePlan(found) == input);
    }
}

int main() {
  testRoundTrip();
  testPlan();
  testKernels();
  testMemories();
  testCopies();
  testOtherOps();
  testBytes();
}
