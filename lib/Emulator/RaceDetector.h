//===- RaceDetector.h - Accesses that no barrier orders ---------*- C++ -*-===//
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

/// Who accesses memory, and when.
struct Accessor {
  static constexpr uint32_t many = ~0u;
  uint32_t block = many;
  uint32_t thread = 0;    // within the block
  uint32_t epoch = 0;     // barriers that the block has passed
  uint32_t warpEpoch = 0; // barriers that the warp has passed
  bool strong = false;    // volatile, relaxed or atomic
};

/// Of each granule of memory, the last accesses. Two accesses race if one
/// writes, they are not both strong, and neither a barrier nor the order of one
/// thread lies between them.
class RaceDetector {
public:
  struct Conflict {
    enum Kind { None, Race, Uninitialized };
    Kind kind = None;
    bool otherWrote = false;
    Accessor other;
  };

  /// `granule`: bytes of the narrowest access, a power of two. Memory that each
  /// block has for itself has no accesses by others.
  void reset(unsigned granule, bool perBlock);
  /// An access of `bytes` bytes, aligned to the granule. With `expectWritten`,
  /// a read of what this block has not written is a conflict.
  Conflict read(uint64_t address, unsigned bytes, const Accessor &by,
                bool expectWritten);
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
