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

/// The number of threads of a warp, which execute an instruction together. A
/// register holds one value for each thread, contiguously. A predicate is a
/// 32-bit integer, 0 or 1.
constexpr unsigned warpSize = 32;

/// Computes one instruction for all lanes. `operands` are the byte offsets of
/// the result and the sources in `frame`. The result is one of the sources or
/// overlaps none.
using Compute = void (*)(char *frame, const uint32_t *operands);

/// The opcode of a pure instruction, from a row of Operations.def.
struct Operation {
  const char *opcode;
  Compute compute;
  /// The names of the types of the result and up to four sources, followed by
  /// null.
  const char *types[6];
};

/// A summary of the addresses that a warp accesses.
struct AddressSummary {
  uint64_t least, greatest;
  uint64_t bits;    // the bitwise or of all addresses
  bool equal;       // all addresses are equal
  bool consecutive; // each address is one step after the previous one
};

/// The operations, compiled for one CPU level.
struct OperationTable {
  const char *level;
  const Operation *operations;
  size_t size;
  /// Returns the values of a predicate as a mask with one bit per lane.
  uint32_t (*toMask)(const uint32_t *predicate);
  /// Writes `bases[lane] + offset` to `addresses` for all 32 lanes. Returns a
  /// summary of the addresses. `step` is the distance between addresses that
  /// count as consecutive.
  AddressSummary (*summarize)(const uint64_t *bases, uint64_t offset,
                              uint64_t step, uint64_t *addresses);
};

/// Returns the tables that this machine supports, in ascending order of CPU
/// level. A null pointer ends the list.
const OperationTable *const *getOperationTables();

} // namespace repro_emulator

#endif // REPRO_EMULATOR_OPERATIONS_H
