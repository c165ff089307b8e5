//===- Counter.cpp - Counts the work of instructions ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/BlockRunner.h"

#include <algorithm>

using namespace repro_emulator;

static constexpr uint64_t sectorBytes = 32, bankBytes = 4, numBanks = 32;

Counter::Counter(const Kernel &kernel, const std::vector<Region> &regions,
                 uint64_t most)
    : regions(regions), most(most), starts(kernel.code.size() + 1) {
  for (const Instruction &instruction : kernel.code)
    counts.instructions.push_back({instruction.line});
  for (const Region &region : regions)
    counts.buffers.push_back({region.name});
}

void Counter::startBlock() {
  left = most;
  seen.clear();
}

void Counter::addGlobal(uint32_t place, const uint64_t *addresses,
                        uint32_t mask, unsigned bytes, bool reads,
                        bool writes) {
  std::array<uint64_t, warpSize> sectors;
  size_t size = 0;
  for (uint32_t rest = mask; rest; rest &= rest - 1)
    sectors[size++] = addresses[__builtin_ctz(rest)];
  std::sort(sectors.begin(), sectors.begin() + size);
  InstructionCount &count = counts.instructions[place];
  uint64_t last = ~uint64_t(0);
  size_t region = 0;
  for (size_t i = 0; i < size; ++i) {
    uint64_t address = sectors[i];
    while (region < regions.size() && address >= regions[region].end)
      ++region;
    if (region == regions.size())
      return;
    BufferCount &buffer = counts.buffers[region];
    uint64_t begin = address - regions[region].begin;
    buffer.begin = std::min(buffer.begin, begin);
    buffer.end = std::max(buffer.end, begin + bytes);
    buffer.isRead |= reads;
    buffer.isWritten |= writes;
    uint64_t sector = address / sectorBytes;
    if (sector == last)
      continue;
    last = sector;
    ++count.sectors;
    if (seen.insert(sector).second) {
      ++count.newSectors;
      ++buffer.newSectors;
    }
  }
}

/// Lanes are served in groups that together access 128 bytes. A group takes one
/// wavefront (a cycle of shared memory) for each different word in its most
/// used bank. Lanes that access the same word share its access.
void Counter::addShared(uint32_t place, const uint64_t *addresses,
                        uint32_t mask, unsigned bytes) {
  unsigned lanes = std::min<unsigned>(warpSize, numBanks * bankBytes / bytes);
  uint64_t &wavefronts = counts.instructions[place].wavefronts;
  for (unsigned first = 0; first < warpSize; first += lanes) {
    std::array<uint64_t, warpSize> words;
    size_t size = 0;
    for (unsigned lane = first; lane < first + lanes; ++lane)
      if (mask >> lane & 1)
        for (uint64_t at = 0; at < bytes; at += bankBytes)
          words[size++] = (addresses[lane] + at) / bankBytes;
    std::sort(words.begin(), words.begin() + size);
    size = size_t(std::unique(words.begin(), words.begin() + size) -
                  words.begin());
    std::array<uint64_t, numBanks> banks{};
    for (size_t i = 0; i < size; ++i)
      ++banks[words[i] % numBanks];
    wavefronts += *std::max_element(banks.begin(), banks.end());
  }
}

Counts Counter::take() {
  int64_t runs = 0;
  for (size_t place = 0; place < counts.instructions.size(); ++place) {
    runs += starts[place];
    counts.instructions[place].runs = uint64_t(runs);
  }
  return std::move(counts);
}

/// Counts an access of the lanes in `mask` before it is executed. Faults of the
/// access are reported only when it is executed.
void BlockRunner::countAccess(Warp &warp, const Instruction &instruction,
                              uint32_t mask) {
  const Detail &detail = kernel.details[instruction.index];
  uint32_t place = uint32_t(&instruction - kernel.code.data());
  bool isStore = instruction.kind == Kind::Store;
  bool writes = isStore || instruction.kind == Kind::Atomic;
  unsigned bytes = unsigned(detail.bytes) * detail.count;
  Access access;
  if (instruction.kind == Kind::AsyncCopy) {
    const uint64_t *to = getLanes<uint64_t>(warp, detail.sources[0]);
    const uint64_t *from = getLanes<uint64_t>(warp, detail.sources[1]);
    const uint32_t *used = getLanes<uint32_t>(warp, detail.sources[2]);
    context.counter->addShared(place, to, mask, detail.bytes);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      unsigned lane = unsigned(__builtin_ctz(rest));
      mask &= used[lane] ? ~0u : ~(1u << lane);
    }
    context.counter->addGlobal(place, from, mask, detail.bytes, true, false);
    return;
  }
  if (instruction.kind == Kind::LoadMatrix) {
    mask = detail.count == 4 ? ~0u : (1u << (8 * detail.count)) - 1;
    bytes = 16;
  }
  if (!resolve(warp, instruction, detail, mask, bytes, writes, access))
    return;
  uint64_t begin = reinterpret_cast<uint64_t>(shared);
  uint64_t local = reinterpret_cast<uint64_t>(localStorage.data());
  uint64_t any = access.addresses[__builtin_ctz(mask)];
  if (any >= begin && any < begin + sharedBytes)
    context.counter->addShared(place, access.addresses, mask, bytes);
  else if (any < local || any >= local + localStorage.size())
    context.counter->addGlobal(place, access.addresses, mask, bytes, !isStore,
                               writes);
}
