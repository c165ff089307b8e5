/*===- Emulator.h - C API of the PTX emulator -----------------------*- C -*-===
 *
 * Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef REPRO_CAPI_EMULATOR_H
#define REPRO_CAPI_EMULATOR_H

/* This API needs neither MLIR nor LLVM at run time, so that Emulator.cpp and
 * the library ReproEmulator can be linked into a separate shared library, such
 * as a stand-in for a GPU driver. */
#include "mlir-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Device memory: the host buffers that kernels may access. The device address
 * of a byte is its host address. */
typedef struct {
  void *ptr;
} ReproEmulatorMemory;

MLIR_CAPI_EXPORTED ReproEmulatorMemory reproEmulatorMemoryCreate(void);
MLIR_CAPI_EXPORTED void reproEmulatorMemoryDestroy(ReproEmulatorMemory memory);
/** Makes `bytes` bytes accessible; returns false if they overlap another
 * buffer. The name appears in messages. */
MLIR_CAPI_EXPORTED bool reproEmulatorMemoryAdd(ReproEmulatorMemory memory,
                                               void *address, uint64_t bytes,
                                               MlirStringRef name);
/** Removes the buffer at `address`; returns false if none starts there. */
MLIR_CAPI_EXPORTED bool reproEmulatorMemoryRemove(ReproEmulatorMemory memory,
                                                  void *address);

/** A loaded PTX module. */
typedef struct {
  void *ptr;
} ReproEmulatorModule;

typedef enum {
  /** All threads of a warp advance together while they follow the same path. */
  ReproEmulatorLockstep = 0,
  /** Each thread runs up to a barrier before the next thread runs. */
  ReproEmulatorAscending = 1,
  ReproEmulatorDescending = 2,
  /** As ascending, but in an order shuffled by `seed`. */
  ReproEmulatorShuffled = 3
} ReproEmulatorOrder;

typedef struct {
  /** The number of host threads that run blocks; 1 in checked launches. */
  unsigned threads;
  /** Detects data races and reads of uninitialized shared memory. */
  bool checked;
  ReproEmulatorOrder order;
  uint64_t seed;
  /** The class (M3) whose rule mma.sync follows for floats, such as "hopper",
   * or an architecture of that class; empty for the class of the module's
   * target. */
  MlirStringRef matrixUnit;
} ReproEmulatorOptions;

/** Translates PTX text. On failure, passes one message to `error` and returns a
 * null pointer. `level` names the host instructions to use: a name that
 * reproEmulatorLevels lists, or "" for the best level. */
MLIR_CAPI_EXPORTED ReproEmulatorModule
reproEmulatorLoad(MlirStringRef ptx, MlirStringRef level,
                  MlirStringCallback error, void *userData);
MLIR_CAPI_EXPORTED void reproEmulatorUnload(ReproEmulatorModule module);

/** Passes the names of the host instruction levels that this machine runs to
 * `callback`, worst first, separated by ", ". */
MLIR_CAPI_EXPORTED void reproEmulatorLevels(MlirStringCallback callback,
                                            void *userData);

/** Passes the opcodes in the table of instructions that do not access memory to
 * `callback`, separated by ", ". */
MLIR_CAPI_EXPORTED void reproEmulatorOpcodes(MlirStringCallback callback,
                                             void *userData);

/** Returns the .target of the module, such as "sm_75". */
MLIR_CAPI_EXPORTED MlirStringRef
reproEmulatorGetTarget(ReproEmulatorModule module);
MLIR_CAPI_EXPORTED intptr_t
reproEmulatorGetNumKernels(ReproEmulatorModule module);
MLIR_CAPI_EXPORTED MlirStringRef
reproEmulatorGetKernelName(ReproEmulatorModule module, intptr_t kernel);
/** Returns the index of the entry with that name, or -1. */
MLIR_CAPI_EXPORTED intptr_t reproEmulatorFindKernel(ReproEmulatorModule module,
                                                    MlirStringRef name);
MLIR_CAPI_EXPORTED intptr_t
reproEmulatorGetNumParameters(ReproEmulatorModule module, intptr_t kernel);
/** Gets the offset and the size in bytes of parameter `index` in the parameter
 * block. */
MLIR_CAPI_EXPORTED void
reproEmulatorGetParameter(ReproEmulatorModule module, intptr_t kernel,
                          intptr_t index, uint64_t *offset, uint64_t *bytes);
/** Returns the size of the whole parameter block in bytes. */
MLIR_CAPI_EXPORTED uint64_t
reproEmulatorGetParameterBytes(ReproEmulatorModule module, intptr_t kernel);
/** Returns the number of bytes of static shared memory that the kernel
 * declares. */
MLIR_CAPI_EXPORTED uint64_t
reproEmulatorGetSharedBytes(ReproEmulatorModule module, intptr_t kernel);

typedef enum {
  ReproEmulatorSuccess = 0,
  /** The launch cannot start because its sizes or parameters are invalid. */
  ReproEmulatorBadLaunch = 1,
  ReproEmulatorOutOfBounds = 2,
  ReproEmulatorMisaligned = 3,
  ReproEmulatorRace = 4,
  ReproEmulatorUninitialized = 5,
  /** Not all threads of a warp or block reach a warp operation or a barrier. */
  ReproEmulatorDivergence = 6,
  ReproEmulatorTrap = 7,
  /** A counted block ran more than the permitted number of instructions. */
  ReproEmulatorUnfinished = 8
} ReproEmulatorStatus;

/** Runs all blocks of a kernel. On failure `error` receives a message with the
 * kernel, PTX line, block and thread; memory keeps the kernel's stores. */
MLIR_CAPI_EXPORTED ReproEmulatorStatus reproEmulatorLaunch(
    ReproEmulatorModule module, intptr_t kernel, const uint32_t grid[3],
    const uint32_t block[3], uint32_t sharedBytes, const void *parameters,
    uint64_t parameterBytes, ReproEmulatorMemory memory,
    ReproEmulatorOptions options, MlirStringCallback error, void *userData);

/** The counts of an instruction, in code order; several instructions may have
 * the same line. A sector is 32 bytes of global memory at a multiple of 32. */
typedef struct {
  int line;
  /** Executions by warps, including those whose guard is false for all threads.
   */
  uint64_t runs;
  /** Sectors that warps request, and those that their block had not requested
   * before. */
  uint64_t sectors, newSectors;
  /** Cycles of shared memory, which has 32 banks of 4 bytes. */
  uint64_t wavefronts;
} ReproEmulatorInstructionCount;

/** How the counted blocks access a buffer. */
typedef struct {
  MlirStringRef name;
  /** The first accessed byte and the end of the last one; `begin` is greater
   * than `end` if no byte is accessed. */
  uint64_t begin, end;
  /** Sectors that a block requests for the first time. */
  uint64_t newSectors;
  bool isRead, isWritten;
} ReproEmulatorBufferCount;

typedef struct {
  void (*instruction)(ReproEmulatorInstructionCount, void *userData);
  void (*buffer)(ReproEmulatorBufferCount, void *userData);
  MlirStringCallback error;
  void *userData;
} ReproEmulatorCountCallbacks;

/** Runs only the blocks with the given numbers, in lockstep, and counts what
 * they execute. A block that runs more than `most` warp instructions fails. */
MLIR_CAPI_EXPORTED ReproEmulatorStatus reproEmulatorCount(
    ReproEmulatorModule module, intptr_t kernel, const uint32_t grid[3],
    const uint32_t block[3], uint32_t sharedBytes, const void *parameters,
    uint64_t parameterBytes, ReproEmulatorMemory memory, const uint64_t *blocks,
    intptr_t numBlocks, uint64_t most, ReproEmulatorCountCallbacks callbacks);

#ifdef __cplusplus
}
#endif

#endif /* REPRO_CAPI_EMULATOR_H */
