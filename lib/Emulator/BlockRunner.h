//===- BlockRunner.h - Runs the threads of a block --------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_BLOCKRUNNER_H
#define REPRO_EMULATOR_BLOCKRUNNER_H

#include "Emulator/Counter.h"
#include "Emulator/RaceDetector.h"

#include <array>

namespace repro_emulator {

/// The data that all blocks of a launch share.
struct LaunchContext {
  const Kernel &kernel;
  const OperationTable &operations;
  LaunchSize size;
  LaunchOptions options;
  std::string_view parameters;
  std::vector<Region> regions;  // in ascending order
  const MatrixUnit *matrixUnit; // supports the kernel's matrix elements
  /// Detects races in global memory across all blocks; null unless the launch
  /// is checked.
  RaceDetector *globalAccesses = nullptr;
  /// Counts the work of the blocks; null unless the launch is counted.
  Counter *counter = nullptr;

  uint32_t getBlockThreads() const {
    return size.block[0] * size.block[1] * size.block[2];
  }
};

/// Runs blocks one after another. The threads of a warp that are at the same
/// instruction form a group. The group at the lowest instruction index runs
/// first, so that diverged threads meet again where their paths join. In orders
/// other than lockstep, each thread is a group of its own until it reaches a
/// barrier.
class BlockRunner {
public:
  explicit BlockRunner(const LaunchContext &context);

  /// Runs block `number` to its end or its first fault. Returns that fault, or
  /// a false Fault if there is none.
  Fault run(uint64_t number);

private:
  struct Group {
    uint32_t place;
    uint32_t mask;
  };
  /// A copy (cp.async) whose bytes are not copied yet.
  struct Copy {
    uint32_t lane, bytes, used, group;
    uint64_t target, source;
    int line;
  };
  struct Warp {
    char *frame;
    char *local;
    uint32_t index;
    uint32_t all;  // lanes with a thread
    uint32_t live; // lanes whose threads have not exited
    std::vector<Group> ready, parked;
    uint32_t waiting = 0; // lanes that wait at a barrier
    uint32_t barrier = 0; // the instruction index of that barrier
    uint32_t epoch = 0;   // the number of warp barriers passed
    std::vector<Copy> copies;
    std::array<uint32_t, warpSize> committed; // copy groups per lane
  };
  /// The host addresses that the lanes access.
  struct Access {
    uint64_t addresses[warpSize];
    bool equal, consecutive;
  };

  // Control (BlockRunner.cpp).
  void startBlock(uint64_t number);
  bool runWarp(Warp &warp);
  template <bool isCounted>
  bool advance(Warp &warp, Group group);
  void computeMasked(Warp &warp, const Instruction &instruction, uint32_t mask);
  void addReady(Warp &warp, uint32_t place, uint32_t mask);
  size_t pickGroup(const Warp &warp) const;
  bool releaseBarrier(bool &allDone);
  bool branchTable(Warp &warp, const Instruction &instruction, Group &group,
                   uint32_t mask);
  bool reachBarrier(Warp &warp, const Instruction &instruction,
                    const Group &group);
  bool isSerial() const { return context.options.order != Order::Lockstep; }

  // Memory (MemoryAccess.cpp).
  bool resolve(Warp &warp, const Instruction &instruction, const Detail &detail,
               uint32_t mask, unsigned bytes, bool writes, Access &access);
  bool resolveLane(Warp &warp, const Instruction &instruction,
                   const Detail &detail, unsigned lane, unsigned bytes,
                   bool writes, Space space, uint64_t address, uint64_t &host);
  bool checkGlobal(Warp &warp, const Instruction &instruction,
                   const Detail &detail, unsigned lane, unsigned bytes,
                   bool writes, uint64_t address);
  bool checkRace(Warp &warp, int line, const std::string &opcode, unsigned lane,
                 Space space, uint64_t address, unsigned bytes, bool reads,
                 bool writes, bool strong);
  const Region *findRegion(uint64_t address, uint32_t hint);
  std::string describeAddress(uint64_t address, unsigned bytes) const;
  bool load(Warp &warp, const Instruction &instruction, uint32_t mask);
  bool store(Warp &warp, const Instruction &instruction, uint32_t mask);
  bool atomic(Warp &warp, const Instruction &instruction, uint32_t mask);
  bool startCopies(Warp &warp, const Instruction &instruction, uint32_t mask);
  bool finishCopies(Warp &warp, uint32_t mask, uint32_t left, bool all);
  bool loadMatrix(Warp &warp, const Instruction &instruction);
  void countAccess(Warp &warp, const Instruction &instruction, uint32_t mask);

  // Warp-synchronous instructions (WarpOperations.cpp).
  bool meet(Warp &warp, const Instruction &instruction, Group &group);
  bool runTogether(Warp &warp, const Instruction &instruction,
                   uint32_t members);
  void shuffle(Warp &warp, const Instruction &instruction, uint32_t members,
               bool &ok);
  void multiplyMatrices(Warp &warp, const Detail &detail);

  template <typename T>
  T *getLanes(const Warp &warp, uint32_t offset) const {
    return reinterpret_cast<T *>(warp.frame + offset);
  }
  std::string describeThread(uint32_t thread) const;
  /// Records a fault, if it is the first one, and returns false.
  bool fail(Status status, const Warp &warp, int line, unsigned lane,
            const std::string &message);

  const LaunchContext &context;
  const Kernel &kernel;
  std::vector<char> frameStorage, localStorage, sharedStorage;
  char *shared = nullptr;
  uint64_t sharedBytes;
  std::vector<Warp> warps;
  std::vector<uint32_t> warpOrder, laneRank;
  std::vector<uint32_t> regionHints; // indexed by detail
  RaceDetector sharedAccesses;
  uint32_t blockNumber = 0, epoch = 0;
  uint32_t block[3];
  Fault fault;
};

} // namespace repro_emulator

#endif // REPRO_EMULATOR_BLOCKRUNNER_H
