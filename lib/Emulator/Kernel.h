//===- Kernel.h - The emulator's representation of a kernel -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_KERNEL_H
#define REPRO_EMULATOR_KERNEL_H

#include "Emulator/MatrixSum.h"
#include "Emulator/Operations.h"
#include "Emulator/Syntax.h"

#include <memory>
#include <optional>

namespace repro_emulator {

/// The kind of an instruction. Every kind except Pure and Branch has a Detail.
enum class Kind : uint8_t {
  Pure,
  Branch,
  BranchTable,
  Exit,
  Trap,
  Load,
  Store,
  Atomic,
  Barrier,
  WarpBarrier,
  Shuffle,
  Vote,
  Match,
  Reduce,
  ActiveMask,
  MatrixMultiply,
  LoadMatrix,
  AsyncCopy,
  AsyncCommit,
  AsyncWait,
};

/// The operation of an atomic access.
enum class AtomicOperation : uint8_t {
  Add,
  Minimum,
  Maximum,
  And,
  Or,
  Xor,
  Exchange,
  CompareAndSwap
};

/// The mode of a shuffle.
enum class ShuffleMode : uint8_t { Up, Down, Butterfly, Index };
/// The mode of a vote.
enum class VoteMode : uint8_t { All, Any, Uniform, Ballot };

/// The properties of an instruction that is not Pure, in addition to its
/// operands.
struct Detail {
  std::string opcode; // for messages
  Space space = Space::Global;
  /// The size in bytes of an element in memory, and of a register.
  uint8_t bytes = 0, registerBytes = 0;
  uint8_t count = 1; // elements of a vector access, matrices of ldmatrix
  bool isSigned = false;
  /// Whether the access is volatile or has an ordering. Two such accesses never
  /// race.
  bool strong = false;
  /// The constant part of the address.
  uint64_t offset = 0;
  /// The size in bytes of the register with the address: 8, 4, or 0 if there is
  /// none.
  uint8_t addressBytes = 0;
  union {
    AtomicOperation atomic = AtomicOperation::Add;
    ShuffleMode shuffle;
    VoteMode vote;
  };
  bool flag = false; // ldmatrix .trans, mma .satfinite, match.all, bar aligned
  // For mma: whether 8-bit integers are signed, or the types of the floats, and
  // whether the results are f16.
  bool signedA = true, signedB = true, toF16 = false;
  std::optional<MatrixElement> elementA, elementB;
  uint8_t rows = 0, columns = 0, depth = 0;
  uint32_t number = 0; // number of a barrier, or of groups of a wait
  /// The frame offsets of registers. The first source of an access is its
  /// address.
  std::vector<uint32_t> results, sources;
  std::vector<uint32_t> targets; // brx.idx targets: indices in the code
};

/// An instruction whose operands are locations in the frame of a warp.
struct Instruction {
  static constexpr uint32_t none = ~0u;
  Kind kind = Kind::Pure;
  uint8_t resultBytes = 0; // per lane, if Pure
  bool guardNegated = false;
  int line = 0;
  Compute compute = nullptr;
  /// The byte offsets of the result and of the sources in the frame.
  uint32_t operands[5] = {0, 0, 0, 0, 0};
  uint32_t guard = none; // a predicate register
  /// The index of the Detail or, for a branch, of the target instruction.
  uint32_t index = none;
  /// The number of consecutive pure instructions without guard that begin at
  /// this instruction and end before the next one at which diverged threads may
  /// meet.
  uint32_t run = 0;
};

/// Registers whose values the emulator sets, such as %tid.x.
enum class Special : uint8_t {
  ThreadX,
  ThreadY,
  ThreadZ,
  BlockX,
  BlockY,
  BlockZ,
  BlockSizeX,
  BlockSizeY,
  BlockSizeZ,
  GridX,
  GridY,
  GridZ,
  Lane,
  Warp,
  NumWarps,
  LanesEqual,
  LanesBelow,
  LanesUpTo,
  LanesAbove,
  LanesFrom,
  DynamicSharedBytes,
  TotalSharedBytes,
};

/// A location in the frame that holds a constant.
struct ConstantSlot {
  uint32_t offset, bytes;
  uint64_t value;
};
/// A location in the frame that holds a special register.
struct SpecialSlot {
  uint32_t offset;
  Special special;
};
/// A location in the frame that holds a parameter of the kernel.
struct ParameterSlot {
  uint32_t offset, bytes;
  uint64_t position; // offset in the parameter block
  bool isSigned;
  uint32_t registerBytes;
};

/// Where a parameter lies in the parameter block of a launch.
struct Parameter {
  uint64_t offset, bytes;
};

/// A translated kernel.
struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  uint64_t parameterBytes = 0;
  uint64_t sharedBytes = 0; // without dynamic shared memory
  uint64_t dynamicSharedOffset = 0;
  uint64_t localBytes = 0; // per thread
  uint32_t requiredBlock[3] = {0, 0, 0}, greatestBlock[3] = {0, 0, 0};
  /// The sizes in bytes of the narrowest access to global and to shared memory.
  unsigned globalGranule = 16, sharedGranule = 16;
  /// The float types that the kernel's matrix instructions multiply: one bit
  /// for each MatrixElement.
  unsigned matrixElements = 0;

  std::vector<Instruction> code;
  std::vector<Detail> details;
  std::vector<ConstantSlot> constants;
  std::vector<SpecialSlot> specials;
  std::vector<ParameterSlot> parameterSlots;
  uint64_t frameBytes = 0; // per warp
};

/// The windows of generic addresses for shared and for local memory. Generic
/// addresses below both are addresses of global memory.
constexpr uint64_t sharedWindow = uint64_t(1) << 56;
constexpr uint64_t localWindow = uint64_t(2) << 56;

/// A variable of the module, which is in host memory.
struct ModuleVariable {
  std::string name;
  std::unique_ptr<char[]> storage;
  char *begin;
  uint64_t bytes;
  bool writable;
};

} // namespace repro_emulator

#endif // REPRO_EMULATOR_KERNEL_H
