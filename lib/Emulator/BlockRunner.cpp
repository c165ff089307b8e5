//===- BlockRunner.cpp - Runs the threads of a block ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/BlockRunner.h"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace repro_emulator;

static void broadcast(char *to, unsigned bytes, uint64_t value) {
  for (unsigned lane = 0; lane < warpSize; ++lane)
    std::memcpy(to + size_t(lane) * bytes, &value, bytes);
}

static char *alignStorage(std::vector<char> &storage, size_t bytes) {
  constexpr size_t alignment = 256;
  storage.assign(bytes + alignment, 0);
  uint64_t begin = reinterpret_cast<uint64_t>(storage.data());
  return storage.data() + (alignment - begin % alignment) % alignment;
}

/// Returns a permutation of 0 .. size - 1: ascending, descending or, for the
/// order Shuffled, random (Knuth's MMIX linear congruential generator).
static std::vector<uint32_t> makeOrder(uint32_t size, Order order,
                                       uint64_t seed) {
  std::vector<uint32_t> result(size);
  for (uint32_t i = 0; i < size; ++i)
    result[i] = order == Order::Descending ? size - 1 - i : i;
  if (order == Order::Shuffled)
    for (uint32_t i = size; i > 1; --i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      std::swap(result[i - 1], result[(seed >> 33) % i]);
    }
  return result;
}

BlockRunner::BlockRunner(const LaunchContext &context)
    : context(context), kernel(context.kernel) {
  uint32_t threads = context.getBlockThreads();
  uint32_t numWarps = (threads + warpSize - 1) / warpSize;
  uint64_t frameBytes = (kernel.frameBytes + 63) / 64 * 64;
  char *frames = alignStorage(frameStorage, frameBytes * numWarps);
  uint64_t localBytes = (kernel.localBytes + 15) / 16 * 16;
  char *locals = alignStorage(localStorage, localBytes * warpSize * numWarps);
  bool hasDynamic = context.size.sharedBytes != 0;
  sharedBytes = hasDynamic
                    ? kernel.dynamicSharedOffset + context.size.sharedBytes
                    : kernel.sharedBytes;
  shared = alignStorage(sharedStorage, sharedBytes);
  regionHints.assign(kernel.details.size(), 0);
  warpOrder = makeOrder(numWarps, context.options.order, context.options.seed);
  std::vector<uint32_t> lanes =
      makeOrder(warpSize, context.options.order, context.options.seed + 1);
  laneRank.resize(warpSize);
  for (uint32_t i = 0; i < warpSize; ++i)
    laneRank[lanes[i]] = i;

  warps.resize(numWarps);
  for (uint32_t i = 0; i < numWarps; ++i) {
    Warp &warp = warps[i];
    warp.frame = frames + frameBytes * i;
    warp.local = locals + localBytes * warpSize * i;
    warp.index = i;
    uint32_t lanesHere = std::min(warpSize, threads - i * warpSize);
    warp.all = lanesHere == 32 ? ~0u : (1u << lanesHere) - 1;
    for (const ConstantSlot &slot : kernel.constants)
      broadcast(warp.frame + slot.offset, slot.bytes, slot.value);
    for (const ParameterSlot &slot : kernel.parameterSlots) {
      uint64_t value = 0;
      std::memcpy(&value, context.parameters.data() + slot.position,
                  slot.bytes);
      unsigned rest = 64 - 8 * slot.bytes;
      if (slot.isSigned && rest)
        value = uint64_t(int64_t(value << rest) >> rest);
      broadcast(warp.frame + slot.offset, slot.registerBytes, value);
    }
  }
  if (context.options.checked)
    sharedAccesses.reset(kernel.sharedGranule, /*perBlock=*/true);
}

std::string BlockRunner::describeThread(uint32_t thread) const {
  const uint32_t *size = context.size.block;
  return "thread (" + std::to_string(thread % size[0]) + ", " +
         std::to_string(thread / size[0] % size[1]) + ", " +
         std::to_string(thread / size[0] / size[1]) + ")";
}

bool BlockRunner::fail(Status status, const Warp &warp, int line, unsigned lane,
                       const std::string &message) {
  if (fault)
    return false;
  fault.status = status;
  fault.message = "kernel '" + kernel.name + "', PTX line " +
                  std::to_string(line) + ", block (" +
                  std::to_string(block[0]) + ", " + std::to_string(block[1]) +
                  ", " + std::to_string(block[2]) + "), " +
                  describeThread(warp.index * warpSize + lane) + ": " + message;
  return false;
}

void BlockRunner::addReady(Warp &warp, uint32_t place, uint32_t mask) {
  if (!isSerial()) {
    for (Group &group : warp.ready)
      if (group.place == place) {
        group.mask |= mask;
        return;
      }
    warp.ready.push_back({place, mask});
    return;
  }
  for (; mask; mask &= mask - 1)
    warp.ready.push_back({place, mask & -mask});
}

void BlockRunner::startBlock(uint64_t number) {
  const LaunchSize &size = context.size;
  blockNumber = uint32_t(number);
  epoch = 0;
  if (context.counter)
    context.counter->startBlock();
  block[0] = uint32_t(number % size.grid[0]);
  block[1] = uint32_t(number / size.grid[0] % size.grid[1]);
  block[2] = uint32_t(number / size.grid[0] / size.grid[1]);
  for (Warp &warp : warps) {
    warp.live = warp.all;
    warp.waiting = 0;
    warp.epoch = 0;
    warp.ready.clear();
    warp.parked.clear();
    warp.copies.clear();
    warp.committed.fill(0);
    addReady(warp, 0, warp.all);
    for (const SpecialSlot &slot : kernel.specials) {
      uint32_t *lanes = getLanes<uint32_t>(warp, slot.offset);
      for (uint32_t lane = 0; lane < warpSize; ++lane) {
        uint32_t thread = warp.index * warpSize + lane;
        uint32_t &value = lanes[lane];
        uint32_t own = 1u << lane;
        switch (slot.special) {
        case Special::ThreadX:
          value = thread % size.block[0];
          break;
        case Special::ThreadY:
          value = thread / size.block[0] % size.block[1];
          break;
        case Special::ThreadZ:
          value = thread / size.block[0] / size.block[1];
          break;
        case Special::BlockX:
        case Special::BlockY:
        case Special::BlockZ:
          value = block[int(slot.special) - int(Special::BlockX)];
          break;
        case Special::BlockSizeX:
        case Special::BlockSizeY:
        case Special::BlockSizeZ:
          value = size.block[int(slot.special) - int(Special::BlockSizeX)];
          break;
        case Special::GridX:
        case Special::GridY:
        case Special::GridZ:
          value = size.grid[int(slot.special) - int(Special::GridX)];
          break;
        case Special::Lane:
          value = lane;
          break;
        case Special::Warp:
          value = warp.index;
          break;
        case Special::NumWarps:
          value = uint32_t(warps.size());
          break;
        case Special::LanesEqual:
          value = own;
          break;
        case Special::LanesBelow:
          value = own - 1;
          break;
        case Special::LanesUpTo:
          value = own | (own - 1);
          break;
        case Special::LanesAbove:
          value = ~(own | (own - 1));
          break;
        case Special::LanesFrom:
          value = ~(own - 1);
          break;
        case Special::DynamicSharedBytes:
          value = size.sharedBytes;
          break;
        case Special::TotalSharedBytes:
          value = uint32_t(sharedBytes);
          break;
        }
      }
    }
  }
}

Fault BlockRunner::run(uint64_t number) {
  startBlock(number);
  for (bool allDone = false; !allDone;) {
    for (uint32_t index : warpOrder)
      if (!warps[index].ready.empty() && !runWarp(warps[index]))
        return std::exchange(fault, {});
    if (!releaseBarrier(allDone))
      return std::exchange(fault, {});
  }
  return {};
}

/// Handles a block in which no thread can proceed. If all threads have exited,
/// sets `allDone`. If all wait at one barrier, releases it. Any other state is
/// a fault, for which the function returns false.
bool BlockRunner::releaseBarrier(bool &allDone) {
  const Warp *waiter = nullptr, *leaver = nullptr;
  for (const Warp &warp : warps) {
    if (warp.waiting && !waiter)
      waiter = &warp;
    if (warp.live != warp.all && !leaver)
      leaver = &warp;
  }
  allDone = !waiter;
  if (allDone)
    return true;
  const Instruction &barrier = kernel.code[waiter->barrier];
  const Detail &detail = kernel.details[barrier.index];
  unsigned lane = unsigned(__builtin_ctz(waiter->waiting));
  if (leaver)
    return fail(Status::Divergence, *waiter, barrier.line, lane,
                "waits at '" + detail.opcode + "', but " +
                    describeThread(
                        leaver->index * warpSize +
                        unsigned(__builtin_ctz(leaver->all & ~leaver->live))) +
                    " has left the kernel");
  for (const Warp &warp : warps) {
    const Instruction &other = kernel.code[warp.barrier];
    if (kernel.details[other.index].number != detail.number)
      return fail(Status::Divergence, *waiter, barrier.line, lane,
                  "waits at barrier " + std::to_string(detail.number) +
                      ", but " + describeThread(warp.index * warpSize) +
                      " at barrier " +
                      std::to_string(kernel.details[other.index].number) +
                      " of line " + std::to_string(other.line));
  }
  for (Warp &warp : warps) {
    // If the barrier is not aligned, the groups of a warp may wait at different
    // instructions.
    for (const Group &group : warp.parked)
      addReady(warp, group.place + 1, group.mask);
    warp.parked.clear();
    warp.waiting = 0;
  }
  ++epoch;
  return true;
}

size_t BlockRunner::pickGroup(const Warp &warp) const {
  size_t best = 0;
  for (size_t i = 1; i < warp.ready.size(); ++i) {
    const Group &a = warp.ready[i], &b = warp.ready[best];
    if (isSerial() ? laneRank[unsigned(__builtin_ctz(a.mask))] <
                         laneRank[unsigned(__builtin_ctz(b.mask))]
                   : a.place < b.place)
      best = i;
  }
  return best;
}

/// Runs a warp until each thread has exited or waits at a barrier. Returns
/// false after a fault.
bool BlockRunner::runWarp(Warp &warp) {
  while (!warp.ready.empty()) {
    size_t index = pickGroup(warp);
    Group group = warp.ready[index];
    warp.ready.erase(warp.ready.begin() + std::ptrdiff_t(index));
    if (!(context.counter ? advance<true>(warp, group)
                          : advance<false>(warp, group)))
      return false;
  }
  // Threads that are parked at an instruction other than a barrier wait for
  // threads that will never arrive.
  for (const Group &group : warp.parked) {
    const Instruction &instruction = kernel.code[group.place];
    const Detail &detail = kernel.details[instruction.index];
    bool isLost = instruction.kind != Kind::Barrier;
    bool isApart = detail.flag && warp.parked.size() > 1 &&
                   instruction.kind == Kind::Barrier;
    if (isLost || isApart)
      return fail(Status::Divergence, warp, instruction.line,
                  unsigned(__builtin_ctz(group.mask)),
                  "waits at '" + detail.opcode +
                      "', which other threads of its warp do not reach");
  }
  if (warp.live == 0)
    return finishCopies(warp, warp.all, 0, true);
  return true;
}

/// Computes a pure instruction for the lanes of `mask` only: computes all lanes
/// into scratch memory, and copies the lanes of the mask to the result.
void BlockRunner::computeMasked(Warp &warp, const Instruction &instruction,
                                uint32_t mask) {
  uint32_t operands[5];
  std::memcpy(operands, instruction.operands, sizeof(operands));
  uint32_t result = operands[0];
  operands[0] = 0; // the scratch location at the start of every frame
  instruction.compute(warp.frame, operands);
  unsigned bytes = instruction.resultBytes;
  for (; mask; mask &= mask - 1) {
    size_t at = size_t(__builtin_ctz(mask)) * bytes;
    std::memcpy(warp.frame + result + at, warp.frame + at, bytes);
  }
}

bool BlockRunner::reachBarrier(Warp &warp, const Instruction &instruction,
                               const Group &group) {
  const Detail &detail = kernel.details[instruction.index];
  unsigned lane = unsigned(__builtin_ctz(group.mask));
  if (detail.sources[0] != Instruction::none) {
    uint32_t threads = getLanes<uint32_t>(warp, detail.sources[0])[lane];
    if (threads != context.getBlockThreads())
      return fail(Status::Divergence, warp, instruction.line, lane,
                  "barrier of " + std::to_string(threads) +
                      " threads, expected all " +
                      std::to_string(context.getBlockThreads()));
  }
  warp.waiting |= group.mask;
  warp.barrier = group.place;
  for (Group &other : warp.parked)
    if (other.place == group.place) {
      other.mask |= group.mask;
      return true;
    }
  warp.parked.push_back(group);
  return true;
}

bool BlockRunner::branchTable(Warp &warp, const Instruction &instruction,
                              Group &group, uint32_t mask) {
  const Detail &detail = kernel.details[instruction.index];
  const uint32_t *index = getLanes<uint32_t>(warp, detail.sources[0]);
  if (group.mask != mask)
    addReady(warp, group.place + 1, group.mask & ~mask);
  for (; mask; mask &= mask - 1) {
    unsigned lane = unsigned(__builtin_ctz(mask));
    if (index[lane] >= detail.targets.size())
      return fail(Status::OutOfBounds, warp, instruction.line, lane,
                  "brx.idx to target " + std::to_string(index[lane]) + " of " +
                      std::to_string(detail.targets.size()));
    addReady(warp, detail.targets[index[lane]], 1u << lane);
  }
  return true;
}

static bool isAccess(Kind kind) {
  return kind == Kind::Load || kind == Kind::Store || kind == Kind::Atomic ||
         kind == Kind::LoadMatrix || kind == Kind::AsyncCopy;
}

/// Runs a group until it meets another group of its warp, waits, or has exited.
/// Returns false after a fault.
template <bool isCounted>
bool BlockRunner::advance(Warp &warp, Group group) {
  auto findLimit = [&] {
    uint32_t limit = ~0u;
    if (!isSerial())
      for (const Group &other : warp.ready)
        limit = std::min(limit, other.place);
    return limit;
  };
  uint32_t limit = findLimit();
  for (;;) {
    if (group.place >= limit) {
      addReady(warp, group.place, group.mask);
      return true;
    }
    const Instruction *instruction = &kernel.code[group.place];
    uint32_t run = instruction->run;
    if (isCounted && !context.counter->addRun(group.place, std::max(run, 1u)))
      return fail(Status::Unfinished, warp, instruction->line,
                  unsigned(__builtin_ctz(group.mask)),
                  "the block runs more instructions than are counted");
    if (run) {
      group.place += run;
      if (group.mask == warp.live)
        for (; run; --run, ++instruction)
          instruction->compute(warp.frame, instruction->operands);
      else
        for (; run; --run, ++instruction)
          computeMasked(warp, *instruction, group.mask);
      continue;
    }
    uint32_t mask = group.mask;
    if (instruction->guard != Instruction::none) {
      uint32_t guard = context.operations.toMask(
          getLanes<uint32_t>(warp, instruction->guard));
      mask &= instruction->guardNegated ? ~guard : guard;
    }
    if (isCounted && mask && isAccess(instruction->kind))
      countAccess(warp, *instruction, mask);
    switch (instruction->kind) {
    case Kind::Pure:
      computeMasked(warp, *instruction, mask);
      break;
    case Kind::Branch:
      if (mask == group.mask) {
        group.place = instruction->index;
        continue;
      }
      if (mask) {
        addReady(warp, instruction->index, mask);
        group.mask &= ~mask;
        limit = findLimit();
      }
      break;
    case Kind::BranchTable:
      return branchTable(warp, *instruction, group, mask);
    case Kind::Exit:
      warp.live &= ~mask;
      group.mask &= ~mask;
      if (!group.mask)
        return true;
      break;
    case Kind::Trap:
      if (mask)
        return fail(Status::Trap, warp, instruction->line,
                    unsigned(__builtin_ctz(mask)), "reached 'trap'");
      break;
    case Kind::Load:
      if (mask && !load(warp, *instruction, mask))
        return false;
      break;
    case Kind::Store:
      if (mask && !store(warp, *instruction, mask))
        return false;
      break;
    case Kind::Atomic:
      if (mask && !atomic(warp, *instruction, mask))
        return false;
      break;
    case Kind::AsyncCopy:
      if (mask && !startCopies(warp, *instruction, mask))
        return false;
      break;
    case Kind::AsyncCommit:
      for (uint32_t left = mask; left; left &= left - 1)
        ++warp.committed[unsigned(__builtin_ctz(left))];
      break;
    case Kind::AsyncWait: {
      const Detail &detail = kernel.details[instruction->index];
      if (!finishCopies(warp, mask, detail.number, detail.flag))
        return false;
      break;
    }
    case Kind::ActiveMask: {
      uint32_t *result = getLanes<uint32_t>(
          warp, kernel.details[instruction->index].results[0]);
      for (uint32_t left = mask; left; left &= left - 1)
        result[unsigned(__builtin_ctz(left))] = mask;
      break;
    }
    default: // an instruction at which threads synchronize
      if (mask != group.mask) {
        addReady(warp, group.place + 1, group.mask & ~mask);
        group.mask = mask;
        limit = findLimit();
      }
      if (!mask)
        return true;
      if (instruction->kind == Kind::Barrier)
        return reachBarrier(warp, *instruction, group);
      if (!meet(warp, *instruction, group))
        return false;
      if (!group.mask)
        return true;
      break;
    }
    ++group.place;
  }
}
