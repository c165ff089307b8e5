//===- CheckPlan.cpp - Checks a plan against its machine ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simulator/CheckPlan.h"

#include <algorithm>

using namespace repro_simulator;

static std::string number(uint64_t value) { return std::to_string(value); }

static std::string name(Core core) {
  return "core [" + number(core.x) + ", " + number(core.y) + "]";
}

namespace {

template <typename... Each>
struct Visitor : Each... {
  using Each::operator()...;
};
template <typename... Each>
Visitor(Each...) -> Visitor<Each...>;

} // namespace

std::string repro_simulator::describeOp(const CorePlan &plan, uint32_t program,
                                        uint32_t op) {
  std::string what =
      std::visit(Visitor{[](const Copy &) { return std::string("copy"); },
                         [](const Wait &) { return std::string("wait"); },
                         [&](const Run &run) {
                           return "run " + plan.kernels[run.kernel].name;
                         },
                         [](const Send &) { return std::string("send"); },
                         [](const Release &release) {
                           return "release " + number(release.counter);
                         },
                         [](const Acquire &acquire) {
                           return "acquire " + number(acquire.counter) +
                                  " count " + number(acquire.count);
                         },
                         [](const Check &) { return std::string("check"); }},
                 plan.programs[program].ops[op]);
  return name(plan.programs[program].core) + ", op " + number(op) + " (" +
         what + ")";
}

namespace {

/// Checks one program, and adds it to the index.
class ProgramChecker {
public:
  ProgramChecker(const CorePlan &plan, const mlir::repro::ManyCore &machine,
                 PlanIndex &index, uint32_t self)
      : plan(plan), machine(machine), index(index), self(self),
        program(plan.programs[self]) {}

  Error check();

private:
  /// The network also carries transfers within one core.
  Error checkNetwork() const {
    return machine.payloadBytes == 0 || machine.linkBytesPerCycle == 0
               ? machine.name + " has no network for transfers"
               : Error();
  }
  Error visit(const Copy &copy) {
    begin();
    if (Error error = checkNetwork(); !error.empty())
      return error;
    bool needsDRAM = isInDRAM(copy.from.memory) || isInDRAM(copy.to.memory);
    return needsDRAM && machine.channels.empty() ? machine.name + " has no DRAM"
                                                 : Error();
  }
  Error visit(const Wait &wait) {
    pending.erase(wait.transfer);
    return {};
  }
  Error visit(const Run &run);
  Error visit(const Send &send) {
    if (Error error = checkNetwork(); !error.empty())
      return error;
    addTo(send.cores, send.counter);
    Pending &sent = begin();
    for (Core core : send.cores)
      sent.additions.push_back(
          {{index.programs.at(core), send.counter},
           index.counters[{index.programs.at(core), send.counter}].additions});
    return {};
  }
  Error visit(const Release &release) {
    addTo(release.cores, release.counter);
    return {};
  }
  Error visit(const Acquire &) { return {}; }
  Error visit(const Check &) { return {}; }

  using CounterKey = std::pair<uint32_t, uint32_t>;
  /// A transfer in flight.
  struct Pending {
    /// The counters to which it adds, and its position among their additions.
    std::vector<std::pair<CounterKey, uint64_t>> additions;
  };

  Pending &begin() {
    Pending &begun = pending[started++];
    most = std::max(most, uint32_t(pending.size()));
    return begun;
  }
  void addTo(const std::vector<Core> &cores, uint32_t counter) {
    for (Core core : cores) {
      CounterKey key{index.programs.at(core), counter};
      CounterUse &use = index.counters[key];
      // A send may arrive after an addition that follows it.
      for (const auto &[transfer, sent] : pending)
        for (const auto &[other, position] : sent.additions)
          for (uint64_t k = position; other == key && k <= use.additions; ++k)
            use.unordered.insert(k);
      ++use.additions;
      use.sources.insert(self);
    }
  }

  const CorePlan &plan;
  const mlir::repro::ManyCore &machine;
  PlanIndex &index;
  uint32_t self;
  const CoreProgram &program;
  std::map<uint32_t, Pending> pending;
  uint32_t started = 0, most = 0; ///< transfers
};

} // namespace

Error ProgramChecker::visit(const Run &run) {
  const TileKernel &kernel = plan.kernels[run.kernel];
  struct Part {
    std::string name;
    uint64_t offset, bytes;
    bool isWritten;
  };
  std::vector<Part> parts;
  for (size_t i = 0; i < run.offsets.size(); ++i)
    parts.push_back({"buffer " + number(i), run.offsets[i],
                     kernel.buffers[i].bytes,
                     bool(kernel.buffers[i].access & writeAccess)});
  parts.push_back({"the scratch memory", program.scratchOffset,
                   program.scratchBytes, true});
  parts.push_back({"the error word", program.errorOffset, wordBytes, true});
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if ((parts[i].isWritten || parts[k].isWritten) &&
          parts[i].offset < parts[k].offset + parts[k].bytes &&
          parts[k].offset < parts[i].offset + parts[i].bytes)
        return parts[k].name + " overlaps " + parts[i].name;
  return {};
}

Error ProgramChecker::check() {
  std::string prefix = name(program.core) + ": ";
  if (program.localBytes > uint64_t(machine.dataBytes))
    return prefix + "the program needs " + number(program.localBytes) +
           " bytes of data memory, but a core of " + machine.name + " has " +
           number(uint64_t(machine.dataBytes));
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    if (Error error = std::visit([&](const auto &op) { return visit(op); },
                                 program.ops[i]);
        !error.empty())
      return describeOp(plan, self, i) + ": " + error;
  }
  if (program.codeBytes > uint64_t(machine.codeBytes))
    return prefix + "its kernels have " + number(program.codeBytes) +
           " bytes of code, but a core of " + machine.name + " has " +
           number(uint64_t(machine.codeBytes));
  index.inFlight.push_back(most);
  return {};
}

/// Where several programs add to a counter, the order of the additions depends
/// on times, so an acquire must wait for all of them.
static Error checkAcquire(const PlanIndex &index, uint32_t program,
                          const Acquire &acquire) {
  auto found = index.counters.find({program, acquire.counter});
  CounterUse use = found == index.counters.end() ? CounterUse() : found->second;
  if (acquire.count > use.additions)
    return "the plan adds only " + number(use.additions) +
           " to this counter, so the core would wait forever";
  if (use.sources.size() > 1 && acquire.count != use.additions)
    return "several cores add to this counter, so the core must wait for all " +
           number(use.additions);
  if (use.unordered.count(acquire.count))
    return "another addition may arrive before the first " +
           number(acquire.count) +
           ": the core that adds must wait for its send before";
  return {};
}

Error repro_simulator::checkPlan(const CorePlan &plan,
                                 const mlir::repro::ManyCore &machine,
                                 PlanIndex &index) {
  auto alignment = uint64_t(machine.getDramAlignment());
  uint64_t bytes = 0; // until the end of the last buffer
  auto place = [&](uint64_t size) {
    bytes = (bytes + alignment - 1) / alignment * alignment + size;
  };
  for (auto *tensors : {&plan.states, &plan.inputs, &plan.outputs})
    for (const Tensor &tensor : *tensors)
      place(tensor.getBytes());
  place(plan.arenaBytes);
  place(plan.constants.size());
  uint64_t memory = uint64_t(machine.dramBytes) * uint64_t(machine.getChips());
  if (!machine.channels.empty() && bytes > memory)
    return "the buffers of the plan have " + number(bytes) +
           " bytes, but the DRAM of " + machine.name + " has " + number(memory);
  for (uint32_t i = 0; i < plan.programs.size(); ++i) {
    Core core = plan.programs[i].core;
    if (!machine.hasCore({core.x, core.y}))
      return machine.name + " has no " + name(core);
    index.programs[core] = i;
  }
  for (uint32_t i = 0; i < plan.programs.size(); ++i)
    if (Error error = ProgramChecker(plan, machine, index, i).check();
        !error.empty())
      return error;
  for (uint32_t i = 0; i < plan.programs.size(); ++i)
    for (uint32_t op = 0; op < plan.programs[i].ops.size(); ++op)
      if (auto *acquire = std::get_if<Acquire>(&plan.programs[i].ops[op]))
        if (Error error = checkAcquire(index, i, *acquire); !error.empty())
          return describeOp(plan, i, op) + ": " + error;
  return {};
}
