//===- steps.cpp - Steps of core plans made by hand -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// REQUIRES: native-tests
// RUN: %native/simulator-steps
//
//===----------------------------------------------------------------------===//

#include "Simulator/Simulator.h"

#include "../Runtime/Expect.h"

#include <cstring>
#include <random>

using namespace repro_simulator;

// The machine tiny-2x2: cycles of 10 ns; transfers start after 100 ns, need 20
// ns from router to router, and move 8 bytes in 10 ns through a link and in 20
// ns through the channel at [0, 0], whose latency is 100 ns.
static constexpr Time ns = 1000000;

static mlir::repro::ManyCore getMachine() {
  std::string error;
  auto machine = mlir::repro::getManyCore("tiny-2x2", error);
  EXPECT(error.empty());
  return *machine;
}

static void add(char *const *buffers, char *, int64_t *, int64_t begin,
                int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    int32_t x, y;
    std::memcpy(&x, buffers[0] + 4 * i, 4);
    std::memcpy(&y, buffers[1] + 4 * i, 4);
    x += y;
    std::memcpy(buffers[2] + 4 * i, &x, 4);
  }
}

/// Fails with message 1 if the first element is negative.
static void checkSign(char *const *buffers, char *, int64_t *error, int64_t,
                      int64_t) {
  int32_t x;
  std::memcpy(&x, buffers[0], 4);
  if (x < 0)
    *error = 2;
}

/// A plan of a state w, an input x and an output y of 16 elements of i32, with
/// the error word at byte 0, scratch memory at byte 64, and buffers from byte
/// 1024 on.
static CorePlan makePlan() {
  CorePlan plan;
  plan.states = {{"w", "i32", {16}}};
  plan.inputs = {{"x", "i32", {16}}};
  plan.outputs = {{"y", "i32", {16}}};
  plan.arenaBytes = 256;
  plan.objects = {"code of the host"};
  plan.messages = {"first", "negative"};
  plan.kernels = {{"add",
                   16,
                   0,
                   100,
                   30,
                   false,
                   {{64, readAccess}, {64, readAccess}, {64, writeAccess}}},
                  {"check", 1, 0, 100, 5, true, {{64, readAccess}}}};
  return plan;
}

static CoreProgram makeProgram(uint32_t x, uint32_t y,
                               std::vector<CoreOp> ops) {
  return {{x, y}, 4096, 200, 64, 64, 0, std::move(ops)};
}

static constexpr uint64_t a = 1024, b = 1088, c = 1152;

static Copy copy(Place from, Place to, uint64_t elements = 16) {
  return {from, to, 4, {elements}, {4}, {4}};
}
static Place local(uint64_t offset) { return {Memory::Local, 0, offset}; }
static Place arena(uint64_t offset) { return {Memory::Arena, 0, offset}; }
static const Place state{Memory::State, 0, 0}, input{Memory::Input, 0, 0},
    output{Memory::Output, 0, 0};

/// A copy and its wait, as transfer number `transfer`.
static std::vector<CoreOp> moved(Copy copy, uint32_t transfer) {
  return {copy, Wait{transfer}};
}

static std::vector<CoreOp> join(std::vector<std::vector<CoreOp>> parts) {
  std::vector<CoreOp> all;
  for (const auto &part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

struct Step {
  int32_t w[16], x[16], y[16];
  Outcome outcome = Outcome::Success;
  Report report;
  Error error;
};

static Step run(CorePlan plan, int32_t first = 1, int steps = 1,
                bool isInterrupted = false) {
  Step step;
  for (int i = 0; i < 16; ++i) {
    step.w[i] = first + i;
    step.x[i] = 100 * i;
    step.y[i] = -1;
  }
  std::string bytes = writeCorePlan(plan);
  step.error = readCorePlan({bytes.data(), bytes.size()}, plan);
  std::unique_ptr<Simulator> simulator;
  if (step.error.empty())
    simulator = Simulator::create(std::move(plan), getMachine(),
                                  {add, checkSign, add}, step.error);
  if (!simulator) {
    step.outcome = Outcome::WrongPlan;
    return step;
  }
  char *buffers[] = {reinterpret_cast<char *>(step.w),
                     reinterpret_cast<char *>(step.x),
                     reinterpret_cast<char *>(step.y)};
  for (int i = 0; i < steps && step.error.empty(); ++i) {
    step.report = {};
    step.report.hasTimeline = true;
    step.outcome = simulator->run(
        buffers, [=] { return isInterrupted; }, step.report, step.error);
    const Report &report = step.report;
    EXPECT(report.computeBound <= report.time);
    EXPECT(report.channelBound <= report.time);
    EXPECT(report.bisectionBound <= report.time);
  }
  return step;
}

static void expectWrong(CorePlan plan, const char *text) {
  Step step = run(std::move(plan));
  EXPECT(step.outcome == Outcome::WrongPlan);
  EXPECT_ERROR(step.error, text);
}

/// Writes the output from the input, so that plans of other cores are complete.
static std::vector<CoreOp> fillOutput(uint32_t transfer = 0) {
  return join({moved(copy(input, local(a)), transfer),
               moved(copy(local(a), output), transfer + 1)});
}

static const Link *findLink(const Report &report, Link::Kind kind,
                            Link::Point from, Link::Point to) {
  for (const Link &link : report.links)
    if (link.kind == kind && link.from == from && link.to == to)
      return &link;
  return nullptr;
}

/// y = w + x, w = y, on one core, twice.
static void testBits() {
  CorePlan plan = makePlan();
  plan.programs = {
      makeProgram(0, 1,
                  {copy(state, local(a)), copy(input, local(b)), Wait{0},
                   Wait{1}, Run{0, {a, b, c}}, copy(local(c), output),
                   copy(local(c), state), Wait{3}, Wait{2}})};
  Step step = run(plan, 1, 2);
  EXPECT(step.error.empty());
  for (int i = 0; i < 16; ++i)
    EXPECT(step.w[i] == 1 + i + 200 * i && step.y[i] == step.w[i]);
  const Report &report = step.report;
  EXPECT(report.kernels[0].runs == 1 && report.kernels[0].time == 500 * ns);
  EXPECT(report.kernels[1].runs == 0);
  EXPECT(report.cores[0].running == 500 * ns);
  EXPECT(report.cores[0].waiting + 500 * ns == report.time);
  EXPECT(report.channelBound == 4 * 160 * ns);
}

/// The transposed part of a state becomes contiguous.
static void testStridedCopy() {
  CorePlan plan = makePlan();
  Copy transposed{{Memory::Input, 0, 4}, local(a), 4, {2, 4}, {4, 16}, {16, 4}};
  Copy back{local(a), output, 4, {8}, {4}, {4}};
  Copy rest{input, {Memory::Output, 0, 32}, 4, {8}, {4}, {4}};
  rest.from = local(b);
  plan.programs = {makeProgram(0, 0,
                               {transposed, copy(input, local(b), 8), Wait{0},
                                Wait{1}, back, rest, Wait{2}, Wait{3}})};
  Step step = run(plan);
  EXPECT(step.error.empty());
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 4; ++k)
      EXPECT(step.y[4 * i + k] == 100 * (1 + i + 4 * k));
}

static void testTimeOfTransfers() {
  CorePlan plan = makePlan();
  plan.programs = {makeProgram(1, 1, fillOutput())};
  Step step = run(plan);
  EXPECT(step.error.empty());
  // Set-up 100, two hops of the request 40, channel 160, latency 100, two hops
  // 40. The way back: set-up 100, two hops 40, channel 160, latency 100.
  EXPECT(step.report.time == (440 + 400) * ns);
  EXPECT(step.report.cores[0].waiting == step.report.time);
  EXPECT(step.report.cores[0].transferring == step.report.time);
  const Link *channel = findLink(step.report, Link::Channel, {0, 0}, {0, 0});
  EXPECT(channel && channel->bytes == 128 && channel->busy == 320 * ns);
  EXPECT(step.report.timeline.size() == 4);

  // A part of 4 bytes costs the 8 bytes of the alignment.
  plan.programs = {makeProgram(
      0, 0, join({fillOutput(), moved(copy(input, local(b), 1), 2)}))};
  step = run(plan);
  channel = findLink(step.report, Link::Channel, {0, 0}, {0, 0});
  EXPECT(channel->bytes == 128 + 8);
}

static void testInterrupt() {
  CorePlan plan = makePlan();
  plan.programs = {makeProgram(0, 0, fillOutput())};
  EXPECT(run(plan).outcome == Outcome::Success);
  Step step = run(plan, 1, 1, /*isInterrupted=*/true);
  EXPECT(step.outcome == Outcome::Interrupted && step.y[0] == -1);
}

static void testContention() {
  // Two cores at the same distance share the channel.
  CorePlan plan = makePlan();
  plan.programs = {makeProgram(1, 0, moved(copy(state, local(a)), 0)),
                   makeProgram(0, 1, moved(copy(input, local(a)), 0)),
                   makeProgram(0, 0, join({{Acquire{0, 2}}, fillOutput()}))};
  for (size_t i : {0, 1})
    plan.programs[i].ops.push_back(Release{{{0, 0}}, 0});
  Step step = run(plan);
  EXPECT(step.error.empty());
  EXPECT(step.report.cores[0].waiting == (100 + 20 + 160 + 100 + 20) * ns);
  EXPECT(step.report.cores[1].waiting == (100 + 20 + 2 * 160 + 100 + 20) * ns);
  // Release 40, one hop 20.
  EXPECT(step.report.cores[2].waiting > (560 + 40 + 20) * ns);

  // Two transfers of one core with one engine follow each other.
  plan = makePlan();
  plan.programs = {makeProgram(0, 0,
                               {copy(input, local(a)), copy(state, local(b)),
                                copy(input, local(c)), Wait{0}, Wait{1},
                                Wait{2}, copy(local(a), output), Wait{3}})};
  step = run(plan);
  EXPECT(step.error.empty());
  // Two engines: the third copy begins when the first has ended, at 360.
  const Interval *third = nullptr;
  for (const Interval &interval : step.report.timeline)
    if (interval.kind == Interval::Transferring && interval.op == 2)
      third = &interval;
  EXPECT(third && third->begin == 360 * ns && third->end == 720 * ns);

  // Two sends share the link from [1, 0] to [1, 1], the nearer one first.
  plan = makePlan();
  std::vector<CoreOp> load = moved(copy(input, local(a)), 0);
  auto send = [](uint64_t to) {
    return std::vector<CoreOp>{Acquire{7, 1}, Send{a, 64, {{1, 1}}, to, 0},
                               Wait{1}};
  };
  std::vector<CoreOp> go = {Acquire{1, 2}, Release{{{0, 0}, {1, 0}}, 7}};
  plan.programs = {
      makeProgram(0, 0, join({load, {Release{{{0, 1}}, 1}}, send(a)})),
      makeProgram(1, 0, join({load, {Release{{{0, 1}}, 1}}, send(b)})),
      makeProgram(
          1, 1,
          {Acquire{0, 2}, Run{0, {a, b, c}}, copy(local(c), output), Wait{0}}),
      makeProgram(0, 1, go)};
  step = run(plan);
  EXPECT(step.error.empty());
  for (int i = 0; i < 16; ++i)
    EXPECT(step.y[i] == 200 * i);
  const Link *shared = findLink(step.report, Link::Mesh, {1, 0}, {1, 1});
  EXPECT(shared && shared->bytes == 128 && shared->busy == 160 * ns);
  EXPECT(step.report.bisectionBound >= 80 * ns);
}

/// A core copies a part of the memory of another core.
static void testRemoteCopy() {
  CorePlan plan = makePlan();
  Copy remote{{Memory::Remote, 0, a}, local(b), 4, {2, 8}, {4, 8}, {32, 4}};
  plan.programs = {makeProgram(0, 0,
                               join({moved(copy(input, local(a)), 0),
                                     {Release{{{1, 1}}, 0}}})),
                   makeProgram(1, 1,
                               join({{Acquire{0, 1}},
                                     moved(remote, 0),
                                     moved(copy(local(b), output), 1)}))};
  Step step = run(plan);
  EXPECT(step.error.empty());
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 8; ++k)
      EXPECT(step.y[8 * i + k] == 100 * (i + 2 * k));
  // Each element of 4 bytes costs the 8 bytes of the alignment.
  const Link *link = findLink(step.report, Link::Mesh, {0, 0}, {1, 0});
  EXPECT(link && link->bytes == 128);
  EXPECT(findLink(step.report, Link::PortIn, {1, 1}, {1, 1})->bytes == 128);
  EXPECT(findLink(step.report, Link::Channel, {0, 0}, {0, 0})->bytes == 128);
  // Set-up 100, two hops of the request 40, links 160, two hops 40.
  for (const Interval &interval : step.report.timeline)
    if (interval.kind == Interval::Transferring && interval.program == 1 &&
        interval.op == 1)
      EXPECT(interval.end - interval.begin == 340 * ns);

  // The reader does not wait for the owner.
  CorePlan early = plan;
  early.programs[1].ops.erase(early.programs[1].ops.begin());
  expectWrong(early, "race: core [1, 1], op 0 (copy) reads byte 1024 of the "
                     "memory of core [0, 0], and core [0, 0], op 0 (copy) "
                     "writes it");
  // The owner does not wait for the reader.
  plan.programs[0].ops.push_back(copy(state, local(a)));
  plan.programs[0].ops.push_back(Wait{1});
  expectWrong(plan, "race: core [1, 1], op 1 (copy) reads byte 1024 of the "
                    "memory of core [0, 0], and core [0, 0], op 3 (copy) "
                    "writes it");
}

static void testMulticast() {
  CorePlan plan = makePlan();
  auto receive = [] { return std::vector<CoreOp>{Acquire{0, 1}}; };
  plan.programs = {
      makeProgram(
          0, 0,
          join({moved(copy(input, local(a)), 0),
                {Send{a, 64, {{1, 0}, {0, 1}, {1, 1}}, b, 0}, Wait{1}}})),
      makeProgram(1, 0, receive()), makeProgram(0, 1, receive()),
      makeProgram(1, 1, join({receive(), moved(copy(local(b), output), 0)}))};
  Step step = run(plan);
  EXPECT(step.error.empty());
  for (int i = 0; i < 16; ++i)
    EXPECT(step.y[i] == 100 * i);
  const Link *first = findLink(step.report, Link::Mesh, {0, 0}, {1, 0});
  EXPECT(first && first->bytes == 64);
  EXPECT(findLink(step.report, Link::PortOut, {0, 0}, {0, 0})->bytes == 64);
  // The copy ends at 360; set-up 100, link 80, one or two hops; acquire 40.
  EXPECT(step.report.cores[1].end == (360 + 100 + 80 + 20 + 40) * ns);
  EXPECT(step.report.cores[0].end == (360 + 100 + 80 + 40) * ns);
}

/// The second send is short and may arrive first, so one addition does not
/// stand for the first send.
static void testOrderOfAdditions() {
  CorePlan plan = makePlan();
  plan.programs = {
      makeProgram(0, 0,
                  join({moved(copy(input, local(a)), 0),
                        {Send{a, 64, {{1, 1}}, a, 0},
                         Send{a, 4, {{1, 1}}, b, 0}, Wait{1}, Wait{2}}})),
      makeProgram(1, 1,
                  join({{Acquire{0, 2}}, moved(copy(local(a), output), 0)}))};
  EXPECT(run(plan).error.empty());
  std::get<Acquire>(plan.programs[1].ops[0]).count = 1;
  expectWrong(plan, "core [1, 1], op 0 (acquire 0 count 1): another addition "
                    "may arrive before the first 1");
  std::swap(plan.programs[0].ops[3], plan.programs[0].ops[4]);
  EXPECT(run(plan).error.empty());
}

static void testRaces() {
  // Between cores: the reader does not wait for the writer.
  CorePlan plan = makePlan();
  std::vector<CoreOp> write = join(
      {moved(copy(input, local(a)), 0), moved(copy(local(a), arena(0)), 1)});
  std::vector<CoreOp> read = join(
      {moved(copy(arena(0), local(a)), 0), moved(copy(local(a), output), 1)});
  plan.programs = {makeProgram(0, 0, join({write, {Release{{{1, 1}}, 3}}})),
                   makeProgram(1, 1, join({{Acquire{3, 1}}, read}))};
  EXPECT(run(plan).error.empty());
  plan.programs[1].ops.erase(plan.programs[1].ops.begin());
  expectWrong(plan, "undefined: core [1, 1], op 0 (copy) reads byte 0 of the "
                    "arena, which nothing has written");
  // As late as a race that does not show in the values.
  plan.programs[1].ops.insert(plan.programs[1].ops.begin(), 20, Run{1, {2048}});
  plan.programs[1].ops.insert(plan.programs[1].ops.begin(),
                              {copy(input, local(2048)), Wait{0}});
  for (CoreOp &op : plan.programs[1].ops)
    if (auto *wait = std::get_if<Wait>(&op))
      if (&op != &plan.programs[1].ops[1])
        ++wait->transfer;
  expectWrong(plan, "race: core [1, 1], op 22 (copy) reads byte 0 of the "
                    "arena, and core [0, 0], op 2 (copy) writes it");

  // Within a core: the kernel runs before the wait.
  plan = makePlan();
  plan.programs = {makeProgram(0, 0,
                               {copy(state, local(a)), copy(input, local(b)),
                                Wait{0}, Run{0, {a, b, c}}, Wait{1},
                                copy(local(c), output), Wait{2}})};
  expectWrong(plan, "race: core [0, 0], op 3 (run add) reads byte 1088 of the "
                    "memory of core [0, 0], and core [0, 0], op 1 (copy) "
                    "writes it");

  // A buffer that is still being copied is written again.
  plan.programs = {makeProgram(
      0, 0,
      {copy(state, local(a)), copy(input, local(b)), Wait{0}, Wait{1},
       Run{0, {a, b, c}}, copy(local(c), output), Run{0, {a, b, c}}, Wait{2}})};
  expectWrong(plan, "(run add) writes byte 1152 of the memory of core [0, 0], "
                    "and core [0, 0], op 5 (copy) reads it");

  // Parts of the arena that do not overlap do not race.
  plan.programs = {makeProgram(0, 0, fillOutput()),
                   makeProgram(1, 0,
                               join({moved(copy(input, local(a)), 0),
                                     moved(copy(local(a), arena(0)), 1)})),
                   makeProgram(0, 1,
                               join({moved(copy(input, local(a)), 0),
                                     moved(copy(local(a), arena(64)), 1)}))};
  EXPECT(run(plan).error.empty());
  std::get<Copy>(plan.programs[2].ops[2]).to = arena(60);
  expectWrong(plan, "writes byte 60 of the arena");
}

static void testDeadlocks() {
  CorePlan plan = makePlan();
  plan.programs = {makeProgram(0, 0, {Acquire{3, 1}, Release{{{1, 0}}, 4}}),
                   makeProgram(1, 0, {Acquire{4, 1}, Release{{{0, 0}}, 3}})};
  expectWrong(plan, "the cores wait for each other: core [0, 0], op 0 (acquire "
                    "3 count 1) has 0; core [1, 0], op 0 (acquire 4 count 1) "
                    "has 0");
  plan.programs[1].ops.pop_back();
  expectWrong(plan, "core [0, 0], op 0 (acquire 3 count 1): the plan adds only "
                    "0 to this counter");
  plan.programs = {makeProgram(0, 0, {Acquire{0, 1}}),
                   makeProgram(1, 0, {Release{{{0, 0}}, 0}}),
                   makeProgram(0, 1, {Release{{{0, 0}}, 0}})};
  expectWrong(plan, "the core must wait for all 2");
}

static void testUndefined() {
  CorePlan plan = makePlan();
  plan.programs = {makeProgram(0, 0, {})};
  expectWrong(plan, "has written byte 0 of the output 'y'");
  plan.programs = {makeProgram(0, 0, moved(copy(local(a), output), 0))};
  expectWrong(plan, "reads byte 1024 of the memory of core [0, 0]");
  plan.programs = {makeProgram(0, 0, moved(copy(input, local(a), 15), 0))};
  plan.programs[0].ops.push_back(Run{1, {a}});
  expectWrong(plan, "(run check) reads byte 1084");
}

static void testOverruns() {
  CorePlan plan = makePlan();
  plan.programs = {makeProgram(0, 0, moved(copy(input, local(4040)), 0))};
  expectWrong(plan, "64 bytes at byte 4040 of a memory of 4096");
  plan.programs = {makeProgram(0, 0, {Run{0, {a, b, 4040}}})};
  expectWrong(plan, "64 bytes at byte 4040 of a memory of 4096");
  plan.programs = {makeProgram(0, 0, {Run{0, {a, b, b + 4}}})};
  expectWrong(plan, "core [0, 0], op 0 (run add): buffer 1 overlaps buffer 2");
  plan.programs = {makeProgram(0, 0, {Run{0, {a, b, 0}}})};
  expectWrong(plan, "buffer 2 overlaps the error word");
  plan.programs = {makeProgram(0, 0, {})};
  plan.programs[0].localBytes = 65537;
  expectWrong(plan, "needs 65537 bytes of data memory, but a core of tiny-2x2 "
                    "has 65536");
  plan.programs = {makeProgram(2, 0, {})};
  expectWrong(plan, "tiny-2x2 has no core [2, 0]");
  plan.programs = {makeProgram(0, 0, fillOutput())};
  plan.programs[0].ops.push_back(Run{1, {a}});
  plan.programs[0].codeBytes = 70000;
  expectWrong(plan, "70000 bytes of code");
  plan.programs[0].codeBytes = 200;
  plan.kernels[1].cycles = uint64_t(1) << 48;
  expectWrong(plan, "more than an hour");
  plan.arenaBytes = uint64_t(1) << 40;
  expectWrong(plan, "but the DRAM of tiny-2x2 has 268435456");
}

/// (E1) The error word ends the step before the state is written.
static void testChecks() {
  CorePlan plan = makePlan();
  std::vector<CoreOp> begin = {copy(state, local(a)), Wait{0}, Run{1, {a}}},
                      end = join({moved(copy(local(a), output), 1),
                                  moved(copy(local(a), state), 2)});
  plan.programs = {makeProgram(0, 0, join({begin, {Check{0, 1}}, end}))};
  Step step = run(plan);
  EXPECT(step.outcome == Outcome::Success && step.error.empty());
  step = run(plan, -5);
  EXPECT(step.outcome == Outcome::CheckFailed && step.error == "negative");
  EXPECT(step.w[0] == -5);
  // Without the check, the state changes before the error word is read.
  plan.programs = {makeProgram(0, 0, join({begin, end}))};
  EXPECT(run(plan).error.empty());
  step = run(plan, -5);
  EXPECT(step.outcome == Outcome::WrongPlan);
  EXPECT_ERROR(step.error, "a check failed after core [0, 0], op 5 (copy) had "
                           "changed a state: negative");
  // A core that waits for a core whose check has failed ends, too.
  plan.programs = {
      makeProgram(0, 0, join({begin, {Check{0, 1}, Release{{{1, 0}}, 0}}})),
      makeProgram(1, 0, join({{Acquire{0, 1}}, fillOutput()}))};
  EXPECT(run(plan).error.empty());
  EXPECT(run(plan, -5).outcome == Outcome::CheckFailed);
}

/// y = w + x in a pipeline: core [0, 0] loads, [1, 0] and [0, 1] add a half
/// each, and [1, 1] stores.
static CorePlan makePipeline() {
  CorePlan plan = makePlan();
  plan.kernels.push_back(
      {"half",
       8,
       0,
       100,
       16,
       false,
       {{32, readAccess}, {32, readAccess}, {32, writeAccess}}});
  auto half = [](uint64_t offset) {
    return std::vector<CoreOp>{Acquire{0, 2},
                               Run{2, {a + offset, b + offset, c + offset}},
                               copy(local(c + offset), arena(offset), 8),
                               Wait{0}, Release{{{1, 1}}, 5}};
  };
  plan.programs = {
      makeProgram(0, 0,
                  {copy(state, local(a)), copy(input, local(b)), Wait{0},
                   Send{a, 64, {{1, 0}, {0, 1}}, a, 0}, Wait{1}, Run{1, {a}},
                   Send{b, 64, {{1, 0}, {0, 1}}, b, 0}, Check{0, 1}, Wait{3},
                   Wait{2}}),
      makeProgram(1, 0, half(0)), makeProgram(0, 1, half(32)),
      makeProgram(1, 1,
                  join({{Acquire{5, 2}},
                        moved(copy(arena(0), local(a)), 0),
                        moved(copy(local(a), output), 1)}))};
  return plan;
}

static bool synchronizes(const CoreOp &op) {
  return std::holds_alternative<Wait>(op) ||
         std::holds_alternative<Release>(op) ||
         std::holds_alternative<Acquire>(op);
}

/// Without a synchronization, or with one at another place, a plan has an error
/// or the same bits.
static void testChangedSynchronization() {
  CorePlan plan = makePipeline();
  Step expected = run(plan, 1, 2);
  EXPECT(expected.error.empty());
  for (int i = 0; i < 16; ++i)
    EXPECT(expected.y[i] == 1 + 101 * i);
  unsigned found = 0, same = 0;
  auto compare = [&](const CorePlan &changed) {
    Step step = run(changed);
    if (step.outcome == Outcome::WrongPlan) {
      EXPECT(!step.error.empty());
      ++found;
    } else {
      EXPECT(std::memcmp(step.y, expected.y, sizeof step.y) == 0);
      ++same;
    }
  };
  for (size_t program = 0; program < plan.programs.size(); ++program) {
    const std::vector<CoreOp> &ops = plan.programs[program].ops;
    for (size_t op = 0; op < ops.size(); ++op) {
      if (!synchronizes(ops[op]))
        continue;
      for (size_t to = 0; to <= ops.size() - 1; ++to) {
        CorePlan changed = plan;
        std::vector<CoreOp> &each = changed.programs[program].ops;
        each.erase(each.begin() + op);
        if (to == op) // without it
          compare(changed);
        each.insert(each.begin() + to, ops[op]);
        compare(changed);
      }
      CorePlan changed = plan;
      CoreOp &each = changed.programs[program].ops[op];
      if (auto *acquire = std::get_if<Acquire>(&each))
        --acquire->count;
      else if (auto *release = std::get_if<Release>(&each))
        ++release->counter;
      compare(changed);
    }
  }
  EXPECT(found > 40 && same > 10);
}

/// A plan with any other number runs to its end or has an error.
static void testChangedNumbers() {
  std::mt19937 random(1);
  auto pick = [&](uint64_t most) { return random() % most; };
  auto change = [&](auto &number) {
    constexpr uint64_t numbers[] = {0, 1, 2, 3, 4, 8, 63, 64, 1024, 4096};
    number = pick(2) ? numbers[pick(std::size(numbers))]
                     : number + pick(2) * 64 - 32;
  };
  unsigned ended = 0;
  for (int i = 0; i < 2000; ++i) {
    CorePlan plan = makePipeline();
    CoreProgram &program = plan.programs[pick(plan.programs.size())];
    CoreOp &op = program.ops[pick(program.ops.size())];
    if (auto *copy = std::get_if<Copy>(&op)) {
      Place &place = pick(2) ? copy->from : copy->to;
      switch (pick(5)) {
      case 0:
        place.memory = Memory(pick(6));
        break;
      case 1:
        change(place.offset);
        break;
      case 2:
        change(copy->elementBytes);
        break;
      case 3:
        change(copy->extents[0]);
        break;
      case 4:
        change((pick(2) ? copy->fromStrides : copy->toStrides)[0]);
        break;
      }
    } else if (auto *run = std::get_if<Run>(&op)) {
      if (pick(2))
        run->kernel = uint32_t(pick(4));
      else
        change(run->offsets[pick(run->offsets.size())]);
    } else if (auto *send = std::get_if<Send>(&op)) {
      change(pick(2) ? send->from : pick(2) ? send->to : send->bytes);
      if (pick(4) == 0)
        send->cores[0] = {uint32_t(pick(3)), uint32_t(pick(3))};
    } else if (auto *check = std::get_if<Check>(&op)) {
      change(pick(2) ? check->offset : check->words);
    } else {
      program.ops.erase(program.ops.begin() + pick(program.ops.size()));
    }
    ended += run(plan).outcome != Outcome::WrongPlan;
  }
  EXPECT(ended > 20 && ended < 1000);
}

int main() {
  testBits();
  testStridedCopy();
  testTimeOfTransfers();
  testInterrupt();
  testContention();
  testRemoteCopy();
  testMulticast();
  testOrderOfAdditions();
  testRaces();
  testDeadlocks();
  testUndefined();
  testOverruns();
  testChecks();
  testChangedSynchronization();
  testChangedNumbers();
  return 0;
}
