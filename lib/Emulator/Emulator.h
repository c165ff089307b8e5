//===- Emulator.h - Runs PTX text on the host -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A PTX emulator in plain C++17, without LLVM. It translates PTX text once.
// Each instruction becomes a call of a routine that computes it for the 32
// threads of a warp, with the host's vector instructions. docs/guides/gpu.md
// describes the checks.
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

/// The outcome of a launch.
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

/// The first fault of a launch. Converts to false if there was none.
struct Fault {
  Status status = Status::Success;
  std::string message;
  explicit operator bool() const { return status != Status::Success; }
};

/// A range of addresses [begin, end) that kernels may access.
struct Region {
  uint64_t begin, end;
  std::string name;
  bool writable;
};

/// Device memory: a set of host buffers, whose device addresses are their host
/// addresses.
class Memory {
public:
  /// Adds a buffer of `bytes` bytes. Returns false if it overlaps another
  /// buffer.
  bool add(uint64_t begin, uint64_t bytes, std::string name,
           bool writable = true);
  /// Removes the buffer that begins at `begin`. Returns false if there is none.
  bool remove(uint64_t begin);
  const std::vector<Region> &getRegions() const { return regions; }

private:
  std::vector<Region> regions; // in ascending order
};

/// The order in which the blocks of a launch, and the threads of a block, run.
enum class Order : int {
  Lockstep = 0,
  Ascending = 1,
  Descending = 2,
  Shuffled = 3
};

/// Options of a launch, in addition to its size.
struct LaunchOptions {
  unsigned threads = 1;
  bool checked = false;
  Order order = Order::Lockstep;
  uint64_t seed = 0;
  /// The name of a class of matrix units (M3), or of an architecture, whose
  /// class is then used. Float matrix instructions follow the rules of this
  /// class. An empty string means the class of the module's target.
  std::string matrixUnit = {};
};

/// The size of a launch.
struct LaunchSize {
  uint32_t grid[3], block[3];
  uint32_t sharedBytes; // dynamic
};

/// How often one instruction of a kernel ran in the counted blocks, and how
/// much memory it accessed. A sector is 32 bytes of global memory at an address
/// that 32 divides.
struct InstructionCount {
  int line;
  /// How many times warps executed the instruction, including executions in
  /// which the guard is false for all threads.
  uint64_t runs = 0;
  /// `sectors` is the number of sectors that warps accessed. `newSectors`
  /// counts only the first access of a block to a sector.
  uint64_t sectors = 0, newSectors = 0;
  /// The number of cycles of the accesses to shared memory, which has 32 banks
  /// of 4 bytes.
  uint64_t wavefronts = 0;
};

/// The accesses of the counted blocks to a buffer.
struct BufferCount {
  std::string name;
  /// The accessed bytes [begin, end), relative to the buffer's first byte.
  uint64_t begin = ~uint64_t(0), end = 0;
  uint64_t newSectors = 0;
  bool isRead = false, isWritten = false;
};

/// The work of all counted blocks of a launch.
struct Counts {
  std::vector<InstructionCount> instructions; // in code order
  std::vector<BufferCount> buffers;           // in address order
};

struct LaunchContext;

/// A PTX module that has been translated.
class Module {
public:
  /// Translates PTX text. Returns null and sets `error` if the text is
  /// malformed or has an unknown opcode. `level` is the CPU level of the host
  /// instructions to use; "" selects the best one that this machine supports.
  static std::unique_ptr<Module>
  load(std::string_view ptx, std::string_view level, std::string &error);
  ~Module();

  const std::string &getTarget() const { return target; }
  const std::vector<Kernel> &getKernels() const { return kernels; }

  /// Runs all blocks of kernel number `kernel`. The first fault ends the
  /// launch. Returns this fault, or a false Fault if there is none.
  Fault launch(size_t kernel, const LaunchSize &size,
               std::string_view parameters, const Memory &memory,
               const LaunchOptions &options);

  /// Runs only the given blocks, adds their work to `counts`, and returns the
  /// first fault. It is a fault if a block executes more than `most` warp
  /// instructions.
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
