//===- AllocateRegisters.cpp - Maps registers to frame locations ----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX code has any number of registers, most of which are written once. A frame
// with a location for each register would not fit into the cache, so a linear
// scan over the registers' lifetimes lets registers share locations. Sharing is
// correct even if the threads of a warp diverge, because each lane of a
// location belongs to one thread.
//
//===----------------------------------------------------------------------===//

#include "Emulator/Steps.h"

#include <algorithm>

using namespace repro_emulator;

namespace {

struct Block {
  uint32_t begin, end;
  std::vector<uint32_t> successors;
  std::vector<uint64_t> defined, read, liveIn, liveOut;
};

class Allocator {
public:
  Allocator(StepProgram &program, Kernel &kernel)
      : program(program), kernel(kernel) {}

  void run() {
    findBlocks();
    findLiveness();
    findIntervals();
    placeConstants();
    placeRegisters();
    writeCode();
  }

private:
  bool isRegister(Value value) const {
    return program.values[value].source == ValueInfo::Register;
  }
  /// Calls `f` with each register that a step reads; `forWritten` calls it with
  /// each register that a step writes.
  template <typename F>
  void forRead(const Step &step, F f) const {
    for (Value value : step.sources)
      if (value != noValue && isRegister(value))
        f(value);
    if (step.guard != noValue && isRegister(step.guard))
      f(step.guard);
  }

  template <typename F>
  static void forWritten(const Step &step, F f) {
    for (Value value : step.results)
      if (value != noValue)
        f(value);
  }

  void findBlocks();
  void findLiveness();
  void findIntervals();
  void placeConstants();
  void placeRegisters();
  void writeCode();
  uint32_t place(uint32_t bytes);

  StepProgram &program;
  Kernel &kernel;
  std::vector<Block> blocks;
  std::vector<bool> leaders;
  /// The first and the last time at which each register is live. Step i reads
  /// at time 2 i. A pure step writes at 2 i + 1, so that its result may reuse
  /// the location of a source; other steps write at 2 i.
  std::vector<uint32_t> first, last;
  std::vector<uint32_t> offsets; // indexed by value
};

} // namespace

void Allocator::findBlocks() {
  uint32_t size = uint32_t(program.steps.size());
  leaders.assign(size + 1, false);
  leaders[0] = true;
  for (uint32_t label : program.labels)
    leaders[label] = true;
  for (uint32_t i = 0; i < size; ++i)
    if (program.steps[i].kind != Kind::Pure)
      leaders[i] = leaders[i + 1] = true;
  std::vector<uint32_t> blockOf(size + 1);
  for (uint32_t i = 0; i < size; ++i) {
    if (leaders[i]) {
      if (!blocks.empty())
        blocks.back().end = i;
      blocks.push_back({i, size, {}, {}, {}, {}, {}});
    }
    blockOf[i] = uint32_t(blocks.size() - 1);
  }
  for (Block &block : blocks) {
    const Step &step = program.steps[block.end - 1];
    bool ends = (step.kind == Kind::Exit || step.kind == Kind::Branch ||
                 step.kind == Kind::Trap) &&
                step.guard == noValue;
    if (!ends && step.kind != Kind::BranchTable && block.end < size)
      block.successors.push_back(blockOf[block.end]);
    if (step.kind == Kind::Branch)
      block.successors.push_back(blockOf[program.labels[step.target]]);
    for (uint32_t label : step.labels)
      block.successors.push_back(blockOf[program.labels[label]]);
  }
}

void Allocator::findLiveness() {
  size_t words = (program.values.size() + 63) / 64;
  auto has = [](const std::vector<uint64_t> &set, Value value) {
    return set[value / 64] >> (value % 64) & 1;
  };
  auto add = [](std::vector<uint64_t> &set, Value value) {
    set[value / 64] |= uint64_t(1) << (value % 64);
  };
  for (Block &block : blocks) {
    for (auto *set :
         {&block.defined, &block.read, &block.liveIn, &block.liveOut})
      set->assign(words, 0);
    for (uint32_t i = block.begin; i < block.end; ++i) {
      const Step &step = program.steps[i];
      forRead(step, [&](Value value) {
        if (!has(block.defined, value))
          add(block.read, value);
      });
      // A guarded write is not a definition, because it keeps the old value in
      // lanes whose guard is false.
      forWritten(step, [&](Value value) {
        if (step.guard == noValue)
          add(block.defined, value);
        else if (!has(block.defined, value))
          add(block.read, value);
      });
    }
    block.liveIn = block.read;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
      for (size_t word = 0; word < words; ++word) {
        uint64_t out = 0;
        for (uint32_t successor : block->successors)
          out |= blocks[successor].liveIn[word];
        uint64_t in = block->read[word] | (out & ~block->defined[word]);
        changed |= in != block->liveIn[word];
        block->liveOut[word] = out;
        block->liveIn[word] = in;
      }
  }
}

void Allocator::findIntervals() {
  first.assign(program.values.size(), ~0u);
  last.assign(program.values.size(), 0);
  auto touch = [&](Value value, uint32_t at) {
    first[value] = std::min(first[value], at);
    last[value] = std::max(last[value], at);
  };
  auto touchAll = [&](const std::vector<uint64_t> &set, uint32_t at) {
    for (size_t word = 0; word < set.size(); ++word)
      for (uint64_t left = set[word]; left; left &= left - 1)
        touch(Value(word * 64 + unsigned(__builtin_ctzll(left))), at);
  };
  for (const Block &block : blocks) {
    touchAll(block.liveIn, 2 * block.begin);
    touchAll(block.liveOut, 2 * block.end - 1);
    for (uint32_t i = block.begin; i < block.end; ++i) {
      const Step &step = program.steps[i];
      forRead(step, [&](Value value) { touch(value, 2 * i); });
      forWritten(step, [&](Value value) {
        touch(value, 2 * i + (step.kind == Kind::Pure));
      });
    }
  }
}

uint32_t Allocator::place(uint32_t bytes) {
  uint32_t size = bytes * warpSize;
  uint64_t offset = (kernel.frameBytes + 63) / 64 * 64;
  kernel.frameBytes = offset + size;
  return uint32_t(offset);
}

void Allocator::placeConstants() {
  place(8); // scratch for masked results
  offsets.assign(program.values.size(), 0);
  for (Value value = 0; value < program.values.size(); ++value) {
    const ValueInfo &info = program.values[value];
    if (info.source == ValueInfo::Register)
      continue;
    uint32_t offset = offsets[value] = place(info.bytes);
    if (info.source == ValueInfo::Constant)
      kernel.constants.push_back({offset, info.bytes, info.bits});
    else if (info.source == ValueInfo::SpecialRegister)
      kernel.specials.push_back({offset, info.special});
    else
      kernel.parameterSlots.push_back(
          {offset, info.parameterBytes, info.bits, info.isSigned, info.bytes});
  }
}

void Allocator::placeRegisters() {
  std::vector<Value> order;
  for (Value value = 0; value < program.values.size(); ++value)
    if (isRegister(value) && first[value] != ~0u)
      order.push_back(value);
  std::stable_sort(order.begin(), order.end(),
                   [&](Value a, Value b) { return first[a] < first[b]; });
  // `free` has the free locations for each size in bytes, and `ends` has the
  // live registers, ordered by the ends of their lifetimes.
  std::vector<uint32_t> free[9];
  std::vector<std::pair<uint32_t, uint32_t>> ends; // a heap of (end, value)
  auto later = std::greater<>();
  for (Value value : order) {
    uint32_t begin = first[value];
    while (!ends.empty() && ends.front().first < begin) {
      Value done = ends.front().second;
      std::pop_heap(ends.begin(), ends.end(), later);
      ends.pop_back();
      free[program.values[done].bytes].push_back(offsets[done]);
    }
    uint8_t bytes = program.values[value].bytes;
    if (free[bytes].empty()) {
      offsets[value] = place(bytes);
    } else {
      offsets[value] = free[bytes].back();
      free[bytes].pop_back();
    }
    ends.emplace_back(last[value], value);
    std::push_heap(ends.begin(), ends.end(), later);
  }
}

void Allocator::writeCode() {
  for (Step &step : program.steps) {
    Instruction instruction;
    instruction.kind = step.kind;
    instruction.line = step.line;
    instruction.compute = step.compute;
    instruction.guardNegated = step.guardNegated;
    if (step.guard != noValue)
      instruction.guard = offsets[step.guard];
    auto toOffset = [&](Value value) {
      return value == noValue ? Instruction::none : offsets[value];
    };
    if (step.kind == Kind::Pure) {
      instruction.resultBytes = program.values[step.results[0]].bytes;
      instruction.operands[0] = offsets[step.results[0]];
      for (size_t i = 0; i < step.sources.size(); ++i)
        instruction.operands[1 + i] = offsets[step.sources[i]];
    } else if (step.kind == Kind::Branch) {
      instruction.index = program.labels[step.target];
    } else {
      instruction.index = uint32_t(kernel.details.size());
      for (Value value : step.results)
        step.detail.results.push_back(toOffset(value));
      for (Value value : step.sources)
        step.detail.sources.push_back(toOffset(value));
      for (uint32_t label : step.labels)
        step.detail.targets.push_back(program.labels[label]);
      kernel.details.push_back(std::move(step.detail));
    }
    kernel.code.push_back(instruction);
  }
  for (size_t i = kernel.code.size(); i-- > 0;) {
    Instruction &instruction = kernel.code[i];
    if (instruction.kind != Kind::Pure ||
        instruction.guard != Instruction::none)
      continue;
    bool goesOn = i + 1 < kernel.code.size() && !leaders[i + 1];
    instruction.run = 1 + (goesOn ? kernel.code[i + 1].run : 0);
  }
}

void repro_emulator::allocateRegisters(StepProgram program, Kernel &kernel) {
  Allocator(program, kernel).run();
}
