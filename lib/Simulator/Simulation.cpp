//===- Simulation.cpp - The events of one step ----------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simulator/Simulation.h"

#include "Simulator/MacArray.h"
#include "Simulator/Rows.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

using namespace repro_simulator;

static constexpr uint64_t memoryAlignment = 64;
/// Memory that no operation has written has these bytes.
static constexpr int poison = 0xab;

void Simulation::FreeMemory::operator()(char *memory) const {
  std::free(memory);
}

static uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

static char *allocate(uint64_t bytes) {
  uint64_t rounded = roundUp(bytes + 1, memoryAlignment);
  auto *memory =
      static_cast<char *>(std::aligned_alloc(memoryAlignment, rounded));
  if (memory)
    std::memset(memory, poison, rounded);
  return memory;
}

static Network::Point toPoint(Core core) { return {core.x, core.y}; }

Simulation::Simulation(const CorePlan &plan,
                       const mlir::repro::ManyCore &machine,
                       const std::vector<KernelEntry> &kernels,
                       const PlanIndex &index, Network &network,
                       char *const *buffers, bool checksAccesses,
                       Report &report)
    : plan(plan), machine(machine), kernels(kernels), index(index),
      network(network), buffers(buffers), checksAccesses(checksAccesses),
      report(report), cores(plan.programs.size()) {
  uint64_t address = 0;
  auto place = [&](uint64_t bytes) {
    addresses.push_back(address);
    address = roundUp(address + bytes, uint64_t(machine.getDramAlignment()));
  };
  for (auto *tensors : {&plan.states, &plan.inputs, &plan.outputs})
    for (const Tensor &tensor : *tensors)
      place(tensor.getBytes());
  place(plan.arenaBytes);
  place(plan.constants.size());

  if (!checksAccesses)
    return;
  for (const Tensor &tensor : plan.states)
    accesses.emplace_back(tensor.getBytes(), /*defined=*/true);
  for (const Tensor &tensor : plan.outputs)
    accesses.emplace_back(tensor.getBytes(), /*defined=*/false);
  accesses.emplace_back(plan.arenaBytes, /*defined=*/false);
  uint32_t actors = 0;
  for (size_t i = 0; i < cores.size(); ++i) {
    cores[i].actor = actors++;
    for (uint32_t k = 0; k < index.inFlight[i]; ++k)
      cores[i].freeActors.push_back(actors++);
  }
  for (size_t i = 0; i < cores.size(); ++i) {
    CoreState &core = cores[i];
    core.clock.resize(actors);
    core.accesses.emplace(plan.programs[i].localBytes, /*defined=*/false);
    // The machine sets the error words to 0 before the first moment.
    uint64_t error = plan.programs[i].errorOffset;
    core.accesses->write({error, error + wordBytes},
                         {core.actor, 0, uint32_t(i), 0}, core.clock);
    core.clock[core.actor] = 1;
  }
}

/// The time between two calls of `isInterrupted`.
static constexpr std::chrono::milliseconds kBetweenQuestions(20);

Outcome Simulation::run(const std::function<bool()> &isInterrupted,
                        Error &error) {
  auto stop = [&](const Error &message) {
    error = message;
    return Outcome::WrongPlan;
  };
  arena.reset(allocate(plan.arenaBytes));
  uint64_t scratchBytes = 0;
  for (const TileKernel &kernel : plan.kernels)
    scratchBytes = std::max(scratchBytes, kernel.scratchBytes);
  scratch.reset(allocate(scratchBytes));
  bool isOutOfMemory = !arena || !scratch;
  for (size_t i = 0; i < cores.size(); ++i) {
    cores[i].memory.reset(allocate(plan.programs[i].localBytes));
    isOutOfMemory |= !cores[i].memory;
    if (!isOutOfMemory)
      std::memset(cores[i].memory.get() + plan.programs[i].errorOffset, 0,
                  wordBytes);
  }
  if (isOutOfMemory)
    return stop("out of memory: cannot allocate the memories of the cores");
  report.cores.resize(cores.size());
  report.kernels.resize(plan.kernels.size());
  for (uint32_t i = 0; i < cores.size(); ++i)
    push(0, Event::Resume, i);
  auto nextQuestion = std::chrono::steady_clock::now();
  while (!events.empty() && wrong.empty()) {
    Event event = events.top();
    events.pop();
    now = event.time;
    handle(event);
    if (std::chrono::steady_clock::now() < nextQuestion)
      continue;
    if (isInterrupted())
      return Outcome::Interrupted;
    nextQuestion = std::chrono::steady_clock::now() + kBetweenQuestions;
  }
  if (!wrong.empty())
    return stop(wrong);

  report.time = now;
  for (const Report::CoreTimes &core : report.cores)
    report.computeBound = std::max(report.computeBound, core.running);
  report.channelBound = network.getChannelBound();
  report.bisectionBound = network.getBisectionBound();
  for (const Link &link : network.links)
    if (link.bytes)
      report.links.push_back(link);

  if (message == 0) {
    if (Error deadlock = describeDeadlock(); !deadlock.empty())
      return stop(deadlock);
    for (size_t i = 0; i < cores.size(); ++i)
      noteWord(cores[i].memory.get() + plan.programs[i].errorOffset);
  }
  if (message != 0) {
    uint64_t number = uint64_t(message) - 1;
    Error failed = number < plan.messages.size() ? plan.messages[number]
                                                 : "a check of the step failed";
    if (!stateWriter.empty())
      return stop("a check failed after " + stateWriter +
                  " had changed a state: " + failed);
    error = failed;
    return Outcome::CheckFailed;
  }
  if (Error undefined = findUndefinedOutput(); !undefined.empty())
    return stop(undefined);
  return Outcome::Success;
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

void Simulation::push(Time time, Event::Kind kind, uint32_t a, uint32_t b) {
  if (time >= endOfTime)
    return fail("the step takes more than an hour");
  events.push({time, numEvents++, kind, a, b});
}

void Simulation::handle(const Event &event) {
  switch (event.kind) {
  case Event::Resume:
    return resume(event.a);
  case Event::Head:
    return advance(event.a, event.b);
  case Event::Arrive:
    return arrive(event.a, event.b);
  case Event::Complete:
    return complete(event.a);
  case Event::Add:
    return add(event.a, event.b);
  }
}

void Simulation::fail(const Error &error) {
  if (wrong.empty())
    wrong = error;
}

void Simulation::record(Interval::Kind kind, uint32_t program, uint32_t op,
                        Time begin, Time end) {
  if (report.hasTimeline)
    report.timeline.push_back({kind, program, op, begin, end});
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

void Simulation::resume(uint32_t program) {
  CoreState &core = cores[program];
  const std::vector<CoreOp> &ops = plan.programs[program].ops;
  while (core.op < ops.size() && wrong.empty()) {
    if (!std::visit([&](const auto &op) { return start(program, op); },
                    ops[core.op]))
      return;
    ++core.op;
  }
  core.state = CoreState::Ended;
  report.cores[program].end = now;
}

bool Simulation::spend(uint32_t program, Interval::Kind kind, Time duration) {
  CoreState &core = cores[program];
  record(kind, program, core.op, now, now + duration);
  Report::CoreTimes &times = report.cores[program];
  (kind == Interval::Running ? times.running : times.synchronizing) += duration;
  ++core.op;
  push(now + duration, Event::Resume, program);
  return false;
}

bool Simulation::block(uint32_t program) {
  cores[program].state = CoreState::Blocked;
  cores[program].blockedAt = now;
  return false;
}

void Simulation::unblock(uint32_t program) {
  CoreState &core = cores[program];
  core.state = CoreState::Ready;
  report.cores[program].waiting += now - core.blockedAt;
  record(Interval::Waiting, program, core.op, core.blockedAt, now);
  push(now, Event::Resume, program);
}

bool Simulation::start(uint32_t program, const Run &run) {
  const CoreProgram &each = plan.programs[program];
  const TileKernel &kernel = plan.kernels[run.kernel];
  char *memory = cores[program].memory.get();
  Access by = byProgram(program);
  std::vector<char *> pointers;
  for (size_t i = 0; i < run.offsets.size(); ++i) {
    const KernelBuffer &buffer = kernel.buffers[i];
    if (buffer.access & readAccess)
      access(program, Memory::Local, 0, run.offsets[i], buffer.bytes,
             AccessKind::Read, by);
    pointers.push_back(memory + run.offsets[i]);
  }
  for (size_t i = 0; i < run.offsets.size(); ++i)
    if (kernel.buffers[i].access & writeAccess)
      access(program, Memory::Local, 0, run.offsets[i], kernel.buffers[i].bytes,
             AccessKind::Write, by);
  access(program, Memory::Local, 0, each.scratchOffset, each.scratchBytes,
         AccessKind::Scratch, by);
  if (kernel.hasChecks)
    access(program, Memory::Local, 0, each.errorOffset, wordBytes,
           AccessKind::Write, by);
  if (!wrong.empty())
    return false;
  MacArray array(machine);
  if (kernel.items) {
    MacArray::Use use(array);
    kernels[run.kernel](pointers.data(), scratch.get(),
                        reinterpret_cast<int64_t *>(memory + each.errorOffset),
                        0, int64_t(kernel.items));
  }
  if (!array.getError().empty()) {
    fail("array: " + describeOp(plan, program, cores[program].op) + ": " +
         array.getError());
    return false;
  }
  if (array.getCycles() > double(kernel.cycles)) {
    fail("array: " + describeOp(plan, program, cores[program].op) +
         " takes more cycles of the array than the plan predicts for the "
         "kernel, " +
         std::to_string(kernel.cycles));
    return false;
  }
  Time duration = fromCycles(machine.runCycles + double(kernel.cycles));
  ++report.kernels[run.kernel].runs;
  report.kernels[run.kernel].time += duration;
  return spend(program, Interval::Running, duration);
}

bool Simulation::start(uint32_t program, const Check &check) {
  access(program, Memory::Local, 0, check.offset, check.words * wordBytes,
         AccessKind::Read, byProgram(program));
  bool hasFailed = false;
  for (uint64_t i = 0; i < check.words; ++i)
    hasFailed |=
        noteWord(cores[program].memory.get() + check.offset + i * wordBytes);
  if (hasFailed) {
    cores[program].state = CoreState::Failed;
    report.cores[program].end = now;
    return false;
  }
  // A word is two loads of 32 bits.
  return spend(program, Interval::Synchronizing,
               fromCycles(2 * machine.loadCycles * double(check.words)));
}

bool Simulation::noteWord(const char *word) {
  int64_t value;
  std::memcpy(&value, word, wordBytes);
  if (value == 0)
    return false;
  message = message == 0 ? value : std::min(message, value);
  return true;
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

uint32_t Simulation::beginTransfer(uint32_t program) {
  CoreState &core = cores[program];
  auto number = uint32_t(transfers.size());
  Transfer transfer;
  transfer.program = program;
  transfer.op = core.op;
  if (checksAccesses) {
    transfer.actor = core.freeActors.back();
    core.freeActors.pop_back();
    transfer.moment = core.clock[transfer.actor] + 1;
  }
  transfers.push_back(std::move(transfer));
  core.transfers.push_back(number);
  return number;
}

bool Simulation::start(uint32_t program, const Copy &copy) {
  uint32_t number = beginTransfer(program);
  const Transfer &transfer = transfers[number];
  Access by{transfer.actor, transfer.moment, program, transfer.op};
  if (checksAccesses) {
    auto check = [&](const Place &place, const std::vector<uint64_t> &strides,
                     AccessKind kind) {
      Rows rows(copy.elementBytes, copy.extents, strides, strides);
      rows.forEach([&](uint64_t offset, uint64_t) {
        access(program, place.memory, place.index, place.offset + offset,
               rows.getRowBytes(), kind, by);
      });
    };
    check(copy.from, copy.fromStrides, AccessKind::Read);
    check(copy.to, copy.toStrides, AccessKind::Write);
  }
  request(number);
  return true;
}

bool Simulation::start(uint32_t program, const Send &send) {
  uint32_t number = beginTransfer(program);
  Access by{transfers[number].actor, transfers[number].moment, program,
            transfers[number].op};
  access(program, Memory::Local, 0, send.from, send.bytes, AccessKind::Read,
         by);
  for (Core core : send.cores)
    access(index.programs.at(core), Memory::Local, 0, send.to, send.bytes,
           AccessKind::Write, by, &cores[program].clock);
  Clock clock = publish(program, &transfers[number]);
  for (Core core : send.cores)
    cores[index.programs.at(core)].counters[send.counter].additions.push_back(
        clock);
  request(number);
  return true;
}

bool Simulation::start(uint32_t program, const Wait &wait) {
  CoreState &core = cores[program];
  const Transfer &transfer = transfers[core.transfers[wait.transfer]];
  if (!transfer.isComplete)
    return block(program);
  if (checksAccesses) {
    core.clock[transfer.actor] = transfer.moment;
    core.freeActors.push_back(transfer.actor);
  }
  return true;
}

/// Gives a transfer to an engine of its core, or lets it wait for one.
void Simulation::request(uint32_t transfer) {
  CoreState &core = cores[transfers[transfer].program];
  if (core.engines < uint64_t(machine.dmaEngines))
    startEngine(transfer);
  else
    core.queue.push_back(transfer);
}

void Simulation::startEngine(uint32_t number) {
  Transfer &transfer = transfers[number];
  CoreState &core = cores[transfer.program];
  if (core.engines++ == 0)
    core.enginesAt = now;
  transfer.begin = now;
  Time head = now + fromCycles(machine.dmaSetupCycles);
  const CoreProgram &program = plan.programs[transfer.program];
  const CoreOp &op = program.ops[transfer.op];
  if (auto *copy = std::get_if<Copy>(&op))
    return addFlows(number, *copy, head);
  const auto &send = std::get<Send>(op);
  transfer.remaining = uint32_t(send.cores.size());
  std::vector<Network::Point> to;
  for (Core core : send.cores)
    to.push_back(toPoint(core));
  addFlow(number, roundUp(send.bytes, uint64_t(machine.dmaAlignment)),
          network.routeToCores(toPoint(program.core), to), head);
}

void Simulation::addFlows(uint32_t number, const Copy &copy, Time head) {
  Network::Point core = toPoint(plan.programs[transfers[number].program].core);
  auto alignment = uint64_t(machine.dmaAlignment);
  bool fromLocal = copy.from.memory == Memory::Local;
  if (!isInDRAM(copy.from.memory) && copy.to.memory == Memory::Local) {
    Rows rows(copy.elementBytes, copy.extents, copy.fromStrides,
              copy.toStrides);
    uint64_t bytes = 0;
    rows.forEach([&](uint64_t, uint64_t) {
      bytes += roundUp(rows.getRowBytes(), alignment);
    });
    if (bytes == 0)
      return push(head, Event::Complete, number);
    transfers[number].remaining = 1;
    Network::Point owner =
        fromLocal ? core : toPoint(plan.programs[copy.from.index].core);
    return addFlow(number, bytes, network.routeToCores(owner, {core}),
                   head + network.getLatency(core, owner));
  }
  const auto &strides = fromLocal ? copy.toStrides : copy.fromStrides;
  uint64_t address = getAddress(fromLocal ? copy.to : copy.from);
  auto interleave = uint64_t(machine.interleaveBytes);
  std::map<unsigned, uint64_t> bytes; // by channel
  Rows rows(copy.elementBytes, copy.extents, strides, strides);
  rows.forEach([&](uint64_t offset, uint64_t) {
    // A transfer moves whole units of the alignment.
    uint64_t begin = (address + offset) / alignment * alignment;
    uint64_t end = roundUp(address + offset + rows.getRowBytes(), alignment);
    while (begin < end) {
      uint64_t next = std::min(end, (begin / interleave + 1) * interleave);
      bytes[network.findChannel(begin)] += next - begin;
      begin = next;
    }
  });
  transfers[number].remaining = uint32_t(bytes.size());
  if (bytes.empty())
    return push(head, Event::Complete, number);
  for (auto [channel, part] : bytes) {
    if (fromLocal)
      addFlow(number, part, network.routeToChannel(core, channel), head);
    else
      addFlow(number, part, network.routeFromChannel(channel, core),
              head + network.getChannelLatency(core, channel));
  }
}

void Simulation::addFlow(uint32_t transfer, uint64_t bytes, const Route &route,
                         Time head) {
  uint64_t flits = roundUp(bytes, uint64_t(machine.payloadBytes));
  auto number = uint32_t(flows.size());
  flows.push_back(
      {transfer, flits, &route, std::vector<Time>(route.nodes.size())});
  for (uint32_t root : route.roots)
    push(head, Event::Head, number, root);
}

void Simulation::advance(uint32_t number, uint32_t nodeNumber) {
  Flow &flow = flows[number];
  const Route::Node &node = flow.route->nodes[nodeNumber];
  Link &link = network.links[node.link];
  Time begin = std::max(now, link.freeAt), busy = link.occupy(flow.bytes);
  link.freeAt = begin + busy;
  link.busy += busy;
  link.bytes += flow.bytes;
  // The last byte leaves no earlier than it has arrived.
  Time tail = std::max(begin + busy, flow.tails[nodeNumber]) + link.latency;
  for (uint32_t next : node.next) {
    flow.tails[next] = tail;
    push(begin + link.latency, Event::Head, number, next);
  }
  if (node.destination != Route::none)
    push(tail, Event::Arrive, number, node.destination);
}

void Simulation::arrive(uint32_t flow, uint32_t destination) {
  uint32_t number = flows[flow].transfer;
  const CoreProgram &program = plan.programs[transfers[number].program];
  if (auto *send = std::get_if<Send>(&program.ops[transfers[number].op])) {
    uint32_t to = index.programs.at(send->cores[destination]);
    std::memcpy(cores[to].memory.get() + send->to,
                cores[transfers[number].program].memory.get() + send->from,
                send->bytes);
    add(to, send->counter);
  }
  if (--transfers[number].remaining == 0) {
    flows[flow].tails = {};
    complete(number);
  }
}

void Simulation::complete(uint32_t number) {
  Transfer &transfer = transfers[number];
  CoreState &core = cores[transfer.program];
  const std::vector<CoreOp> &ops = plan.programs[transfer.program].ops;
  if (auto *copy = std::get_if<Copy>(&ops[transfer.op]))
    move(transfer.program, transfer.op, *copy);
  transfer.isComplete = true;
  record(Interval::Transferring, transfer.program, transfer.op, transfer.begin,
         now);
  if (--core.engines == 0)
    report.cores[transfer.program].transferring += now - core.enginesAt;
  if (core.state == CoreState::Blocked)
    if (auto *wait = std::get_if<Wait>(&ops[core.op]))
      if (core.transfers[wait->transfer] == number)
        unblock(transfer.program);
  if (!core.queue.empty()) {
    uint32_t next = core.queue.front();
    core.queue.pop_front();
    startEngine(next);
  }
}

void Simulation::move(uint32_t program, uint32_t op, const Copy &copy) {
  const char *from = getMemory(program, copy.from);
  char *to = getMemory(program, copy.to);
  Rows rows(copy.elementBytes, copy.extents, copy.fromStrides, copy.toStrides);
  rows.forEach([&](uint64_t source, uint64_t destination) {
    std::memcpy(to + destination, from + source, rows.getRowBytes());
  });
  if (copy.to.memory == Memory::State && stateWriter.empty())
    stateWriter = describeOp(plan, program, op);
}

//===----------------------------------------------------------------------===//
// Counters
//===----------------------------------------------------------------------===//

void Simulation::add(uint32_t program, uint32_t number) {
  CoreState &core = cores[program];
  uint32_t value = ++core.counters[number].value;
  if (core.state != CoreState::Blocked)
    return;
  auto *acquire = std::get_if<Acquire>(&plan.programs[program].ops[core.op]);
  if (acquire && acquire->counter == number && value >= acquire->count)
    unblock(program);
}

bool Simulation::start(uint32_t program, const Release &release) {
  Time cost = fromCycles(machine.releaseCycles);
  Clock clock = publish(program, nullptr);
  Network::Point from = toPoint(plan.programs[program].core);
  for (Core core : release.cores) {
    uint32_t to = index.programs.at(core);
    cores[to].counters[release.counter].additions.push_back(clock);
    push(now + cost + network.getLatency(from, toPoint(core)), Event::Add, to,
         release.counter);
  }
  return spend(program, Interval::Synchronizing, cost);
}

bool Simulation::start(uint32_t program, const Acquire &acquire) {
  CoreState &core = cores[program];
  Counter &counter = core.counters[acquire.counter];
  if (counter.value < acquire.count)
    return block(program);
  if (checksAccesses)
    for (; counter.known < acquire.count; ++counter.known) {
      join(core.clock, *counter.additions[counter.known]);
      counter.additions[counter.known].reset();
    }
  return spend(program, Interval::Synchronizing,
               fromCycles(machine.acquireCycles));
}

Error Simulation::describeDeadlock() const {
  Error text;
  size_t blocked = 0;
  constexpr size_t most = 8;
  for (uint32_t i = 0; i < cores.size(); ++i) {
    const CoreState &core = cores[i];
    if (core.state != CoreState::Blocked || ++blocked > most)
      continue;
    const auto &acquire = std::get<Acquire>(plan.programs[i].ops[core.op]);
    text += (text.empty() ? "" : "; ") + describeOp(plan, i, core.op) +
            " has " + std::to_string(core.counters.at(acquire.counter).value);
  }
  if (blocked > most)
    text += "; and " + std::to_string(blocked - most) + " more";
  return text.empty() ? text : "the cores wait for each other: " + text;
}

//===----------------------------------------------------------------------===//
// Memories
//===----------------------------------------------------------------------===//

char *Simulation::getMemory(uint32_t program, const Place &place) {
  size_t inputs = plan.states.size(), outputs = inputs + plan.inputs.size();
  switch (place.memory) {
  case Memory::State:
    return buffers[place.index] + place.offset;
  case Memory::Input:
    return buffers[inputs + place.index] + place.offset;
  case Memory::Output:
    return buffers[outputs + place.index] + place.offset;
  case Memory::Arena:
    return arena.get() + place.offset;
  case Memory::Constant:
    return const_cast<char *>(plan.constants.data()) + place.offset;
  case Memory::Local:
    return cores[program].memory.get() + place.offset;
  case Memory::Remote:
    return cores[place.index].memory.get() + place.offset;
  }
  return nullptr;
}

uint64_t Simulation::getAddress(const Place &place) const {
  size_t inputs = plan.states.size(), outputs = inputs + plan.inputs.size(),
         arena = outputs + plan.outputs.size();
  size_t number = place.memory == Memory::State    ? place.index
                  : place.memory == Memory::Input  ? inputs + place.index
                  : place.memory == Memory::Output ? outputs + place.index
                  : place.memory == Memory::Arena  ? arena
                                                   : arena + 1;
  return addresses[number] + place.offset;
}

AccessChecker *Simulation::getAccesses(uint32_t program, Memory memory,
                                       uint32_t index) {
  if (memory == Memory::Local)
    return &*cores[program].accesses;
  if (memory == Memory::Remote)
    return &*cores[index].accesses;
  if (memory == Memory::State)
    return &accesses[index];
  if (memory == Memory::Output)
    return &accesses[plan.states.size() + index];
  // No operation writes inputs and constants.
  return memory == Memory::Arena ? &accesses.back() : nullptr;
}

Access Simulation::byProgram(uint32_t program) const {
  const CoreState &core = cores[program];
  if (!checksAccesses)
    return {};
  return {core.actor, core.clock[core.actor], program, core.op};
}

Simulation::Clock Simulation::publish(uint32_t program,
                                      const Transfer *transfer) {
  CoreState &core = cores[program];
  if (!checksAccesses)
    return nullptr;
  auto clock = std::make_shared<VectorClock>(core.clock);
  if (transfer)
    (*clock)[transfer->actor] = transfer->moment;
  ++core.clock[core.actor];
  return clock;
}

static std::string describeMemory(const CorePlan &plan, uint32_t program,
                                  Memory memory, uint32_t index) {
  switch (memory) {
  case Memory::State:
    return "the state '" + plan.states[index].name + "'";
  case Memory::Output:
    return "the output '" + plan.outputs[index].name + "'";
  case Memory::Local:
  case Memory::Remote: {
    Core core = plan.programs[memory == Memory::Local ? program : index].core;
    return "the memory of core [" + std::to_string(core.x) + ", " +
           std::to_string(core.y) + "]";
  }
  default:
    return "the arena";
  }
}

void Simulation::access(uint32_t program, Memory memory, uint32_t index,
                        uint64_t offset, uint64_t bytes, AccessKind kind,
                        const Access &by, const VectorClock *known) {
  if (!checksAccesses || !wrong.empty())
    return;
  AccessChecker *checker = getAccesses(program, memory, index);
  if (!checker)
    return;
  const VectorClock &clock = known ? *known : cores[program].clock;
  ByteRange range{offset, offset + bytes};
  AccessChecker::Conflict conflict =
      kind == AccessKind::Read
          ? checker->read(range, by, clock)
          : checker->write(range, by, clock, kind == AccessKind::Write);
  if (conflict.kind == AccessChecker::Conflict::None)
    return;
  std::string what =
      describeOp(plan, by.program, by.op) +
      (kind == AccessKind::Read ? " reads byte " : " writes byte ") +
      std::to_string(conflict.at) + " of " +
      describeMemory(plan, program, memory, index);
  if (conflict.kind == AccessChecker::Conflict::Undefined)
    return fail("undefined: " + what + ", which nothing has written");
  fail("race: " + what + ", and " +
       describeOp(plan, conflict.other.program, conflict.other.op) +
       (conflict.otherWrote ? " writes it" : " reads it") +
       "; no wait, release or acquire orders the two");
}

Error Simulation::findUndefinedOutput() const {
  if (checksAccesses)
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      uint64_t at = accesses[plan.states.size() + i].findUndefined();
      if (at < plan.outputs[i].getBytes())
        return "undefined: no operation has written byte " +
               std::to_string(at) + " of the output '" + plan.outputs[i].name +
               "'";
    }
  return {};
}
