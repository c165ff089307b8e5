//===- Operations.h - Instructions without memory ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_OPERATIONS_H
#define REPRO_EMULATOR_OPERATIONS_H

#include <cstddef>
#include <cstdint>

namespace repro_emulator {

/// The number of threads in a warp, which execute an instruction together. A
/// register contains one value per thread, contiguously. A predicate is an
/// integer of 32 bits, 0 or 1.
constexpr unsigned warpSize = 32;

/// Computes all lanes of one instruction. `operands` contains the byte offsets
/// of the result and the sources in `frame`. The result is either identical to
/// a source or does not overlap it.
using Compute = void (*)(char *frame, const uint32_t *operands);

/// An opcode of a pure instruction, as a row of Operations.def defines it.
struct Operation {
  const char *opcode;
  Compute compute;
  /// The type names of the result and of up to four sources, then null.
  const char *types[6];
};

/// A summary of the addresses that a warp accesses.
struct AddressSummary {
  uint64_t least, greatest;
  uint64_t bits;    // the bitwise or of all addresses
  bool equal;       // all addresses are equal
  bool consecutive; // each address is one step after the previous one
};

/// The operations compiled for one CPU level.
struct OperationTable {
  const char *level;
  const Operation *operations;
  size_t size;
  /// Converts a predicate to one bit per lane.
  uint32_t (*toMask)(const uint32_t *predicate);
  /// Writes `bases[lane] + offset` to `addresses` for each of the 32 lanes, and
  /// returns a summary of the addresses.
  AddressSummary (*summarize)(const uint64_t *bases, uint64_t offset,
                              uint64_t step, uint64_t *addresses);
};

/// Returns the tables that this machine supports in ascending order of level; a
/// null pointer ends the list.
const OperationTable *const *getOperationTables();

} // namespace repro_emulator

#endif // REPRO_EMULATOR_OPERATIONS_H
