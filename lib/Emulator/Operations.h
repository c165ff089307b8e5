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

/// Threads of a warp: what one instruction works on at a time. A register
/// holds that many values next to each other; a predicate is a 32-bit 0 or 1.
constexpr unsigned warpSize = 32;

/// Computes all lanes of one instruction. `operands` are the byte offsets of
/// the result and the sources in `frame`; a result is either exactly a source
/// or apart from all of them.
using Compute = void (*)(char *frame, const uint32_t *operands);

/// What an opcode means: the rows of Operations.def.
struct Operation {
  const char *opcode;
  Compute compute;
  /// Type names of the result and of up to four sources, then null.
  const char *types[6];
};

/// What is known of the addresses that a warp accesses.
struct AddressSummary {
  uint64_t least, greatest;
  uint64_t bits;    // of all of them, combined by or
  bool equal;       // all are the same
  bool consecutive; // each is one step behind the one before
};

/// The operations compiled for one set of host instructions.
struct OperationTable {
  const char *level;
  const Operation *operations;
  size_t size;
  /// One bit per lane of a predicate.
  uint32_t (*toMask)(const uint32_t *predicate);
  /// Writes the sums of 32 bases and the offset.
  AddressSummary (*summarize)(const uint64_t *bases, uint64_t offset,
                              uint64_t step, uint64_t *addresses);
};

/// The tables that this machine runs, worst first; ends with a null pointer.
const OperationTable *const *getOperationTables();

} // namespace repro_emulator

#endif // REPRO_EMULATOR_OPERATIONS_H
