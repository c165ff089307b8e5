//===- AccessChecker.h - Finds races between cores --------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the order of accesses with vector clocks. Each program of a core, and
// each transfer in flight, is an actor that advances a component of the clocks.
// The checks depend on the synchronization in a plan, not on the times.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_SIMULATOR_ACCESSCHECKER_H
#define REPRO_SIMULATOR_ACCESSCHECKER_H

#include <cstdint>
#include <map>
#include <vector>

namespace repro_simulator {

/// For each actor, the number of its last moment that is known to be over.
using VectorClock = std::vector<uint32_t>;

/// Makes `clock` know everything that `other` knows.
void join(VectorClock &clock, const VectorClock &other);

/// The bytes [begin, end) of a memory.
struct ByteRange {
  uint64_t begin, end;
};

/// An access of an operation.
struct Access {
  uint32_t actor = 0;
  uint32_t moment = 0; ///< in the actor's component of the clocks
  uint32_t program = 0;
  uint32_t op = 0; ///< of the program
};

/// The accesses to one memory.
class AccessChecker {
public:
  /// The result of an access: no conflict, or the access `other` that nothing
  /// orders before it, or a byte that no operation has defined.
  struct Conflict {
    enum Kind { None, Race, Undefined };
    Kind kind = None;
    uint64_t at = 0; ///< the first byte of the conflict
    bool otherWrote = false;
    Access other;
  };

  /// All bytes of the memory begin `defined` or undefined.
  AccessChecker(uint64_t bytes, bool defined);

  /// Records an access of an operation that knows `clock`.
  Conflict read(ByteRange range, const Access &by, const VectorClock &clock);
  /// After the access, the bytes are defined unless it leaves no useful values.
  Conflict write(ByteRange range, const Access &by, const VectorClock &clock,
                 bool defines = true);
  /// Returns the first byte of the memory that is undefined, or its size.
  uint64_t findUndefined() const;

private:
  /// Bytes with the same accesses, up to the begin of the next segment.
  struct Segment {
    bool isDefined = false, isWritten = false;
    Access writer;
    std::vector<Access> readers; ///< since the last write
  };
  using Segments = std::map<uint64_t, Segment>;

  /// Makes segments begin at both ends of the range, and returns them.
  std::pair<Segments::iterator, Segments::iterator> split(ByteRange range);

  uint64_t bytes;
  Segments segments;
};

} // namespace repro_simulator

#endif // REPRO_SIMULATOR_ACCESSCHECKER_H
