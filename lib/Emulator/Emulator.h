//===- Emulator.h - Runs PTX text on the host -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plain C++17 without LLVM. PTX text is translated once: each instruction
// becomes a call of a routine that computes it for the 32 threads of a warp
// with the vector instructions of the host. docs/gpu.md says what is checked.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_EMULATOR_H
#define REPRO_EMULATOR_EMULATOR_H

#include "Emulator/Kernel.h"

#include <mutex>

namespace repro_runtime {
class ThreadPool;
} // namespace repro_runtime

namespace repro_emulator {

enum class Status : int {
  Success = 0,
  BadLaunch = 1,
  OutOfBounds = 2,
  Misaligned = 3,
  Race = 4,
  Uninitialized = 5,
  Divergence = 6,
  Trap = 7,
  Unfinished = 8,
};

struct Fault {
  Status status = Status::Success;
  std::string message;
  explicit operator bool() const { return status != Status::Success; }
};

/// Bytes that kernels may access.
struct Region {
  uint64_t begin, end;
  std::string name;
  bool writable;
};

/// Device memory: a set of host buffers. The address is that of the host.
class Memory {
public:
  /// False if the bytes overlap those of another buffer.
  bool add(uint64_t begin, uint64_t bytes, std::string name,
           bool writable = true);
  bool remove(uint64_t begin);
  const std::vector<Region> &getRegions() const { return regions; }

private:
  std::vector<Region> regions; // in ascending order
};

enum class Order : int {
  Lockstep = 0,
  Ascending = 1,
  Descending = 2,
  Shuffled = 3
};

struct LaunchOptions {
  unsigned threads = 1;
  bool checked = false;
  Order order = Order::Lockstep;
  uint64_t seed = 0;
  /// The name of a class (M3), or of an architecture for its class, by which
  /// matrices of floats are multiplied; "" for that of the module's target.
  std::string matrixUnit = {};
};

struct LaunchSize {
  uint32_t grid[3], block[3];
  uint32_t sharedBytes; // dynamic
};

/// What one instruction of a kernel did in the blocks that were counted. A
/// sector is 32 bytes of global memory at a multiple of 32.
struct InstructionCount {
  int line;
  /// Of warps, also with a guard that holds for no thread.
  uint64_t runs = 0;
  /// Asked for by a warp; of these, those that the block asks for first.
  uint64_t sectors = 0, newSectors = 0;
  /// Cycles that shared memory takes, of 32 banks of 4 bytes.
  uint64_t wavefronts = 0;
};

/// What the counted blocks did with a buffer.
struct BufferCount {
  std::string name;
  /// The first byte and the one behind the last one, from the beginning.
  uint64_t begin = ~uint64_t(0), end = 0;
  uint64_t newSectors = 0;
  bool isRead = false, isWritten = false;
};

struct Counts {
  std::vector<InstructionCount> instructions; // of the code, in order
  std::vector<BufferCount> buffers;           // in the order of addresses
};

struct LaunchContext;

class Module {
public:
  /// Null and a message in `error` if the text is malformed or has an opcode
  /// that is not known. `level` chooses host instructions, "" the best.
  static std::unique_ptr<Module>
  load(std::string_view ptx, std::string_view level, std::string &error);
  ~Module();

  const std::string &getTarget() const { return target; }
  const std::vector<Kernel> &getKernels() const { return kernels; }

  Fault launch(size_t kernel, const LaunchSize &size,
               std::string_view parameters, const Memory &memory,
               const LaunchOptions &options);

  /// Runs only the blocks of these numbers, and counts. A block of more than
  /// `most` instructions of warps is a fault.
  Fault count(size_t kernel, const LaunchSize &size,
              std::string_view parameters, const Memory &memory,
              const std::vector<uint64_t> &blocks, uint64_t most,
              Counts &counts);

private:
  Module();
  LaunchContext makeContext(const Kernel &kernel, const LaunchSize &size,
                            std::string_view parameters, const Memory &memory,
                            const LaunchOptions &options, Fault &fault) const;

  std::string target;
  const OperationTable *operations = nullptr;
  std::vector<ModuleVariable> variables;
  std::vector<Kernel> kernels;
  std::mutex mutex; // one launch at a time
  std::unique_ptr<::repro_runtime::ThreadPool> pool;
};

} // namespace repro_emulator

#endif // REPRO_EMULATOR_EMULATOR_H
