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

/// The thread that makes an access, and the time of the access, counted in
/// barriers.
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
/// order nor a barrier orders them.
class RaceDetector {
public:
  /// The result of an access: no conflict, a race with the access `other`, or a
  /// read of a granule that was not written.
  struct Conflict {
    enum Kind { None, Race, Uninitialized };
    Kind kind = None;
    bool otherWrote = false;
    Accessor other;
  };

  /// Forgets all accesses. `granule` is the size in bytes of the narrowest
  /// access, a power of two. If `perBlock`, each block has its own memory, so
  /// accesses of different blocks never conflict.
  void reset(unsigned granule, bool perBlock);
  /// Records a read of `bytes` bytes, aligned to the granule. If
  /// `expectWritten`, it is a conflict to read a granule that was not written.
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
