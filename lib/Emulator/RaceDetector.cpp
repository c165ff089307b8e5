//===- RaceDetector.cpp - Finds unordered accesses ------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/RaceDetector.h"

using namespace repro_emulator;

/// Whether two accesses cannot race: program order or a barrier puts `before`
/// first, or both are strong.
static bool isOrdered(const Accessor &before, const Accessor &now) {
  if (before.strong && now.strong)
    return true;
  if (before.block != now.block)
    return false;
  if (before.epoch != now.epoch)
    return true;
  if (before.thread == now.thread)
    return true;
  return before.thread != Accessor::many &&
         before.thread / 32 == now.thread / 32 &&
         before.warpEpoch != now.warpEpoch;
}

void RaceDetector::reset(unsigned granule, bool isPerBlock) {
  perBlock = isPerBlock;
  shift = unsigned(__builtin_ctz(granule));
  pages.clear();
  lastPage = ~uint64_t(0);
}

RaceDetector::Cell &RaceDetector::getCell(uint64_t index, uint32_t block) {
  uint64_t page = index >> pageBits;
  if (page != lastPage) {
    std::unique_ptr<Cell[]> &cells = pages[page];
    if (!cells)
      cells = std::make_unique<Cell[]>(size_t(1) << pageBits);
    lastPage = page;
    lastCells = cells.get();
  }
  Cell &cell = lastCells[index & ((1u << pageBits) - 1)];
  if (perBlock) {
    cell.written &= cell.writer.block == block;
    cell.wasRead &= cell.reader.block == block;
  }
  return cell;
}

RaceDetector::Conflict RaceDetector::read(uint64_t address, unsigned bytes,
                                          const Accessor &by,
                                          bool expectWritten) {
  Conflict conflict;
  for (uint64_t at = address >> shift; at << shift < address + bytes; ++at) {
    Cell &cell = getCell(at, by.block);
    if (expectWritten && !cell.written)
      conflict.kind = Conflict::Uninitialized;
    else if (cell.written && !isOrdered(cell.writer, by))
      conflict = {Conflict::Race, true, cell.writer};
    Accessor &reader = cell.reader;
    if (!cell.wasRead) {
      reader = by;
      cell.wasRead = true;
      continue;
    }
    bool strong = reader.strong && by.strong;
    if (reader.block != by.block)
      reader.block = Accessor::many;
    else if (reader.epoch != by.epoch)
      reader = by; // earlier reads can race only with other blocks
    else if (reader.thread != by.thread)
      reader.thread = Accessor::many;
    reader.strong = strong;
  }
  return conflict;
}

RaceDetector::Conflict RaceDetector::write(uint64_t address, unsigned bytes,
                                           const Accessor &by) {
  Conflict conflict;
  for (uint64_t at = address >> shift; at << shift < address + bytes; ++at) {
    Cell &cell = getCell(at, by.block);
    if (cell.written && !isOrdered(cell.writer, by))
      conflict = {Conflict::Race, true, cell.writer};
    else if (cell.wasRead && !isOrdered(cell.reader, by))
      conflict = {Conflict::Race, false, cell.reader};
    cell.writer = by;
    cell.written = true;
  }
  return conflict;
}
