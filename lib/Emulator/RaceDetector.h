//===- RaceDetector.h - Finds unordered accesses ----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_RACEDETECTOR_H
#define REPRO_EMULATOR_RACEDETECTOR_H

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace repro_emulator {

/// The thread that accesses memory, and the time of the access.
struct Accessor {
  static constexpr uint32_t many = ~0u;
  uint32_t block = many;
  uint32_t thread = 0;    // within the block
  uint32_t epoch = 0;     // barriers that the block has passed
  uint32_t warpEpoch = 0; // barriers that the warp has passed
  bool strong = false;    // volatile, relaxed or atomic
};

/// Tracks the last accesses to each granule of memory. Two accesses race if at
/// least one of them writes, at least one is not strong, and neither program
/// order nor a barrier is between them.
class RaceDetector {
public:
  /// The race, or the read of an uninitialized granule, that an access causes.
  struct Conflict {
    enum Kind { None, Race, Uninitialized };
    Kind kind = None;
    bool otherWrote = false;
    Accessor other;
  };

  /// `granule` is the size of the narrowest access in bytes, a power of two.
  /// `perBlock` means that each block has its own memory, so that accesses of
  /// other blocks do not count.
  void reset(unsigned granule, bool perBlock);
  /// Records a read of `bytes` bytes, aligned to the granule. With
  /// `expectWritten`, reading a granule that this block has not written is a
  /// conflict.
  Conflict read(uint64_t address, unsigned bytes, const Accessor &by,
                bool expectWritten);
  /// Records a write of `bytes` bytes, aligned to the granule.
  Conflict write(uint64_t address, unsigned bytes, const Accessor &by);

private:
  struct Cell {
    Accessor writer, reader;
    bool written = false, wasRead = false;
  };
  Cell &getCell(uint64_t granuleIndex, uint32_t block);

  static constexpr unsigned pageBits = 9;
  unsigned shift = 0;
  bool perBlock = false;
  std::unordered_map<uint64_t, std::unique_ptr<Cell[]>> pages;
  uint64_t lastPage = ~uint64_t(0);
  Cell *lastCells = nullptr;
};

} // namespace repro_emulator

#endif // REPRO_EMULATOR_RACEDETECTOR_H
