//===- Plan.h - The launches of a compiled program --------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one step of a program does, on a CPU or on a GPU: the `launch.plan` of
// the IR as data. docs/plan.md describes its bytes.
//
// The library needs nothing but the C++ standard library: the runner of another
// machine is built from the same sources.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_RUNTIME_PLAN_H
#define REPRO_RUNTIME_PLAN_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace repro_runtime {

/// The empty string for success, else one message for the user.
using Error = std::string;

struct Bytes {
  const char *data = nullptr;
  size_t size = 0;
};

/// What runs the launches.
enum class Processor : uint32_t { CPU = 0, GPU = 1 };

/// What a buffer of a launch is part of.
enum class Space : uint32_t {
  State = 0,    ///< index: which state
  Input = 1,    ///< index: which input
  Output = 2,   ///< index: which output
  Arena = 3,    ///< index is 0
  Constant = 4, ///< index is 0
};

struct BufferRef {
  Space space;
  uint32_t index;
  uint64_t offset; ///< in bytes
};

struct Tensor {
  std::string name;
  std::string element; ///< MLIR's name of the element type, such as f32
  std::vector<uint64_t> shape;

  uint64_t getBytes() const;
};

struct Kernel {
  std::string name;
  // On a CPU, whose threads share the work:
  uint64_t items = 0;        ///< independent work items
  uint64_t grain = 0;        ///< the smallest sensible share of them
  uint64_t scratchBytes = 0; ///< of each thread
  // On a GPU, which runs a block of threads for each point of a grid:
  std::array<uint32_t, 3> block{}; ///< threads in x, y and z
  uint32_t sharedBytes = 0;        ///< of dynamic shared memory
};

struct Launch {
  uint32_t kernel;
  bool check; ///< the step ends before this launch if a check has failed
  std::vector<BufferRef> buffers;
  std::array<uint32_t, 3> grid{}; ///< on a GPU: blocks in x, y and z
};

struct Plan {
  Processor processor = Processor::CPU;
  uint64_t arenaBytes = 0;
  uint64_t constantBytes = 0;
  std::vector<Tensor> states, inputs, outputs;
  /// Of the checks (E1): a kernel that finds an error stores the number of its
  /// message + 1.
  std::vector<std::string> messages;
  std::vector<Kernel> kernels;
  std::vector<Launch> launches;
};

std::string writePlan(const Plan &plan);

/// Reads and checks a plan: whatever the bytes are, the result is an error or a
/// plan whose every index, offset and size is in range, and whose only form as
/// bytes these are.
Error readPlan(Bytes bytes, Plan &plan);

} // namespace repro_runtime

#endif // REPRO_RUNTIME_PLAN_H
