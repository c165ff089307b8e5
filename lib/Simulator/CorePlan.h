//===- CorePlan.h - The programs of many cores ------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One step of a program on a machine with many cores: the `cores.plan`
// operation of the IR as data, and the code of its kernels.
// docs/reference/core-plan.md describes its byte format, and
// docs/reference/mlir/cores-dialect.md what the operations do.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_SIMULATOR_COREPLAN_H
#define REPRO_SIMULATOR_COREPLAN_H

#include "Runtime/Plan.h"

#include <variant>

namespace repro_simulator {

using ::repro_runtime::Bytes;
using ::repro_runtime::Error;
using ::repro_runtime::Tensor;

/// The memory that a buffer lies in. The first five are repro_runtime::Space.
enum class Memory : uint32_t {
  State = 0,    ///< index: number of the state
  Input = 1,    ///< index: number of the input
  Output = 2,   ///< index: number of the output
  Arena = 3,    ///< index is 0
  Constant = 4, ///< index is 0
  Local = 5,    ///< the data memory of the program's core; index is 0
  Remote = 6,   ///< that of another core; index: number of its program
};

inline bool isInDRAM(Memory memory) {
  return memory != Memory::Local && memory != Memory::Remote;
}

struct Place {
  Memory memory = Memory::Arena;
  uint32_t index = 0;
  uint64_t offset = 0; ///< in bytes
};

/// A core of the machine: its column and its row.
struct Core {
  uint32_t x = 0, y = 0;
};

inline bool operator==(Core a, Core b) { return a.x == b.x && a.y == b.y; }
inline bool operator<(Core a, Core b) {
  return a.x != b.x ? a.x < b.x : a.y < b.y;
}

/// How a kernel accesses a buffer: the sum of these values.
constexpr uint32_t readAccess = 1, writeAccess = 2;

/// A buffer argument of a kernel. Its bytes follow each other without gaps.
struct KernelBuffer {
  uint64_t bytes = 0;
  uint32_t access = readAccess | writeAccess;
};

/// A kernel that computes a tile.
struct TileKernel {
  std::string name;
  uint64_t items = 0;        ///< the work items [0, items) of a run
  uint64_t scratchBytes = 0; ///< of this code, aligned to 64 bytes
  uint64_t codeBytes = 0;    ///< in the core; 0 if the code is for the host
  uint64_t cycles = 0;       ///< predicted for a run of all items
  bool hasChecks = false; ///< whether the kernel may write the error word (E1)
  std::vector<KernelBuffer> buffers;
};

/// Starts a transfer of elements between two places, of which at least one is
/// local. Element (i0, i1, ...) is at byte offset + i0 * strides[0] + ...
struct Copy {
  Place from, to;
  uint32_t elementBytes = 0;
  std::vector<uint64_t> extents, fromStrides, toStrides; ///< strides in bytes
};

/// Blocks until a transfer is complete. Transfers, which are copies and sends,
/// are numbered from 0 in the order in which the program starts them.
struct Wait {
  uint32_t transfer = 0;
};

/// Runs a kernel on buffers at these bytes of the local memory.
struct Run {
  uint32_t kernel = 0;
  std::vector<uint64_t> offsets;
};

/// Starts a transfer of local bytes to byte `to` of the memories of other
/// cores. Its arrival at a core adds 1 to the core's counter.
struct Send {
  uint64_t from = 0, bytes = 0;
  std::vector<Core> cores;
  uint64_t to = 0;
  uint32_t counter = 0;
};

/// Adds 1 to a counter of the cores.
struct Release {
  std::vector<Core> cores;
  uint32_t counter = 0;
};

/// Blocks until the counter of this core is at least `count`.
struct Acquire {
  uint32_t counter = 0, count = 0;
};

/// (E1) Ends the step if one of these local i64 words is not zero.
struct Check {
  uint64_t offset = 0, words = 0;
};

using CoreOp = std::variant<Copy, Wait, Run, Send, Release, Acquire, Check>;

/// The program of one core.
struct CoreProgram {
  Core core;
  uint64_t localBytes = 0;    ///< of the core's data memory
  uint64_t codeBytes = 0;     ///< of all functions that its kernels need
  uint64_t scratchOffset = 0; ///< for all kernels, a multiple of 64
  uint64_t scratchBytes = 0;
  uint64_t errorOffset = 0; ///< of the error word (E1), a multiple of 8
  std::vector<CoreOp> ops;
};

struct CorePlan {
  std::string machine; ///< the complete description of the machine as JSON
  std::string level;   ///< the CPU level of the objects
  std::vector<Tensor> states, inputs, outputs;
  uint64_t arenaBytes = 0;
  std::string constants;
  std::vector<std::string> messages; ///< of the checks (E1)
  std::vector<TileKernel> kernels;
  std::vector<CoreProgram> programs;
  /// ELF relocatable objects, which together define `repro_kernels`, an array
  /// of the addresses of all kernels in the order of `kernels`.
  std::vector<std::string> objects;
};

/// Serializes a plan.
std::string writeCorePlan(const CorePlan &plan);

/// Reads and checks a plan. Returns an error unless every index, offset and
/// size is in range: all buffers lie within their memory, and no operation
/// writes an input or a constant. Each plan has one encoding. The machine's
/// description, the order of accesses and the code are not checked.
Error readCorePlan(Bytes bytes, CorePlan &plan);

} // namespace repro_simulator

#endif // REPRO_SIMULATOR_COREPLAN_H
