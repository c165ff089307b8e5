/*===- Emulator.h - C API of the PTX emulator -----------------------*- C -*-===
 *
 * Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef REPRO_CAPI_EMULATOR_H
#define REPRO_CAPI_EMULATOR_H

/* Needs neither MLIR nor LLVM at run time: Emulator.cpp and the library
 * ReproEmulator make a shared library of their own, such as a stand-in for a
 * GPU driver. */
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
/** Makes `bytes` bytes accessible; false if they overlap others. The name is
 * for messages. */
MLIR_CAPI_EXPORTED bool reproEmulatorMemoryAdd(ReproEmulatorMemory memory,
                                               void *address, uint64_t bytes,
                                               MlirStringRef name);
/** Removes the buffer that starts at `address`; false if there is none. */
MLIR_CAPI_EXPORTED bool reproEmulatorMemoryRemove(ReproEmulatorMemory memory,
                                                  void *address);

/** A loaded PTX module. */
typedef struct {
  void *ptr;
} ReproEmulatorModule;

typedef enum {
  /** One warp advances in one step, as far as its threads agree. */
  ReproEmulatorLockstep = 0,
  /** Each thread runs up to a barrier before the next one does. */
  ReproEmulatorAscending = 1,
  ReproEmulatorDescending = 2,
  /** As ascending, but shuffled by `seed`. */
  ReproEmulatorShuffled = 3
} ReproEmulatorOrder;

typedef struct {
  /** Host threads over which blocks are spread; 1 in checked launches. */
  unsigned threads;
  /** Look for data races and for reads of shared memory that nobody wrote. */
  bool checked;
  ReproEmulatorOrder order;
  uint64_t seed;
  /** The class (M3) by whose rule mma.sync multiplies floats, such as "hopper",
   * or an architecture for its class; empty for that of the module's target. */
  MlirStringRef matrixUnit;
} ReproEmulatorOptions;

/** Translates PTX text; a null pointer after `error` has received one message.
 * `level` names the host instructions to use ("" for the best, else as
 * reproEmulatorLevels lists them). */
MLIR_CAPI_EXPORTED ReproEmulatorModule
reproEmulatorLoad(MlirStringRef ptx, MlirStringRef level,
                  MlirStringCallback error, void *userData);
MLIR_CAPI_EXPORTED void reproEmulatorUnload(ReproEmulatorModule module);

/** Names of the host instruction levels that this machine runs, worst first,
 * separated by ", ". */
MLIR_CAPI_EXPORTED void reproEmulatorLevels(MlirStringCallback callback,
                                            void *userData);

/** The rows of the table of instructions without memory, separated by ", ". */
MLIR_CAPI_EXPORTED void reproEmulatorOpcodes(MlirStringCallback callback,
                                             void *userData);

/** The .target of the module, such as "sm_75". */
MLIR_CAPI_EXPORTED MlirStringRef
reproEmulatorGetTarget(ReproEmulatorModule module);
MLIR_CAPI_EXPORTED intptr_t
reproEmulatorGetNumKernels(ReproEmulatorModule module);
MLIR_CAPI_EXPORTED MlirStringRef
reproEmulatorGetKernelName(ReproEmulatorModule module, intptr_t kernel);
/** The index of the entry of that name, or -1. */
MLIR_CAPI_EXPORTED intptr_t reproEmulatorFindKernel(ReproEmulatorModule module,
                                                    MlirStringRef name);
MLIR_CAPI_EXPORTED intptr_t
reproEmulatorGetNumParameters(ReproEmulatorModule module, intptr_t kernel);
/** Where parameter `index` lies in the parameter block, in bytes. */
MLIR_CAPI_EXPORTED void
reproEmulatorGetParameter(ReproEmulatorModule module, intptr_t kernel,
                          intptr_t index, uint64_t *offset, uint64_t *bytes);
/** Bytes of the whole parameter block. */
MLIR_CAPI_EXPORTED uint64_t
reproEmulatorGetParameterBytes(ReproEmulatorModule module, intptr_t kernel);
/** Bytes of shared memory that the kernel declares itself. */
MLIR_CAPI_EXPORTED uint64_t
reproEmulatorGetSharedBytes(ReproEmulatorModule module, intptr_t kernel);

typedef enum {
  ReproEmulatorSuccess = 0,
  /** A launch that cannot begin: sizes, parameters. */
  ReproEmulatorBadLaunch = 1,
  ReproEmulatorOutOfBounds = 2,
  ReproEmulatorMisaligned = 3,
  ReproEmulatorRace = 4,
  ReproEmulatorUninitialized = 5,
  /** A barrier or an operation of a warp that not all threads reach. */
  ReproEmulatorDivergence = 6,
  ReproEmulatorTrap = 7,
  /** A counted block that runs more instructions than it may. */
  ReproEmulatorUnfinished = 8
} ReproEmulatorStatus;

/** Runs all blocks of a kernel. On failure `error` receives a message that
 * names kernel, PTX line, block and thread; memory is as the kernel left it. */
MLIR_CAPI_EXPORTED ReproEmulatorStatus reproEmulatorLaunch(
    ReproEmulatorModule module, intptr_t kernel, const uint32_t grid[3],
    const uint32_t block[3], uint32_t sharedBytes, const void *parameters,
    uint64_t parameterBytes, ReproEmulatorMemory memory,
    ReproEmulatorOptions options, MlirStringCallback error, void *userData);

/** What an instruction did, in the order of the code; several may be of one
 * line. A sector is 32 bytes of global memory at a multiple of 32. */
typedef struct {
  int line;
  /** Of warps, also with a guard that holds for no thread. */
  uint64_t runs;
  /** Asked for by a warp; of these, those that its block asks for first. */
  uint64_t sectors, newSectors;
  /** Cycles of shared memory, which has 32 banks of 4 bytes. */
  uint64_t wavefronts;
} ReproEmulatorInstructionCount;

/** What blocks did with a buffer. */
typedef struct {
  MlirStringRef name;
  /** The first byte of it and the one behind the last one; `begin` is greater
   * where there is none. */
  uint64_t begin, end;
  /** Sectors that a block asks for first. */
  uint64_t newSectors;
  bool isRead, isWritten;
} ReproEmulatorBufferCount;

typedef struct {
  void (*instruction)(ReproEmulatorInstructionCount, void *userData);
  void (*buffer)(ReproEmulatorBufferCount, void *userData);
  MlirStringCallback error;
  void *userData;
} ReproEmulatorCountCallbacks;

/** Runs the blocks of these numbers alone, in lockstep, and counts what they
 * do. A block of more than `most` instructions of warps fails. */
MLIR_CAPI_EXPORTED ReproEmulatorStatus reproEmulatorCount(
    ReproEmulatorModule module, intptr_t kernel, const uint32_t grid[3],
    const uint32_t block[3], uint32_t sharedBytes, const void *parameters,
    uint64_t parameterBytes, ReproEmulatorMemory memory, const uint64_t *blocks,
    intptr_t numBlocks, uint64_t most, ReproEmulatorCountCallbacks callbacks);

#ifdef __cplusplus
}
#endif

#endif /* REPRO_CAPI_EMULATOR_H */
