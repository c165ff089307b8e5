//===- Plan.h - The launches of a compiled program --------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The plan of one step of a program, on a CPU or a GPU: the `launch.plan`
// operation of the IR as data. docs/reference/plan.md describes its byte
// format.
//
// This library requires only the C++ standard library, so that a runner on
// another machine can be built from the same sources.
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

/// Empty on success, else an error message for the user.
using Error = std::string;

/// A non-owning view of bytes.
struct Bytes {
  const char *data = nullptr;
  size_t size = 0;
};

/// The type of processor that runs the launches.
enum class Processor : uint32_t { CPU = 0, GPU = 1 };

/// The memory that a buffer of a launch lies in.
enum class Space : uint32_t {
  State = 0,    ///< index: number of the state
  Input = 1,    ///< index: number of the input
  Output = 2,   ///< index: number of the output
  Arena = 3,    ///< index is 0
  Constant = 4, ///< index is 0
};

/// A buffer argument of a launch.
struct BufferRef {
  Space space;
  uint32_t index;
  uint64_t offset; ///< in bytes
};

/// A state, input or output of the program.
struct Tensor {
  std::string name;
  std::string element; ///< MLIR's name of the element type, such as f32
  std::vector<uint64_t> shape;

  uint64_t getBytes() const;
};

/// A kernel of the plan.
struct Kernel {
  std::string name;
  // On a CPU, where threads divide the work items:
  uint64_t items = 0;        ///< independent work items
  uint64_t grain = 0;        ///< the granularity at which items are divided
  uint64_t scratchBytes = 0; ///< scratch memory per thread
  // On a GPU, where each block of the grid has several threads:
  std::array<uint32_t, 3> block{}; ///< threads in x, y and z
  uint32_t sharedBytes = 0;        ///< dynamic shared memory per block
};

/// A launch of a kernel on buffers.
struct Launch {
  uint32_t kernel;
  bool check; ///< if a check has failed, the step ends before this launch
  std::vector<BufferRef> buffers;
  std::array<uint32_t, 3> grid{}; ///< on a GPU: blocks in x, y and z
};

/// The kernels and launches of a program, in execution order.
struct Plan {
  Processor processor = Processor::CPU;
  uint64_t arenaBytes = 0;
  uint64_t constantBytes = 0;
  std::vector<Tensor> states, inputs, outputs;
  /// (E1) The error messages of checks. A kernel whose check fails stores the
  /// number of the message + 1 in the error word.
  std::vector<std::string> messages;
  std::vector<Kernel> kernels;
  std::vector<Launch> launches;
};

/// Serializes a plan.
std::string writePlan(const Plan &plan);

/// Reads and checks a plan. Returns an error unless every index, offset and
/// size is in range. Each plan has one encoding: writing the result gives the
/// same bytes.
Error readPlan(Bytes bytes, Plan &plan);

} // namespace repro_runtime

#endif // REPRO_RUNTIME_PLAN_H
