/*===- CPU.h - C API for CPU targets --------------------------------*- C -*-===
 *
 * Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef REPRO_CAPI_CPU_H
#define REPRO_CAPI_CPU_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Passes the names of the levels to `callback`, separated by ", ". */
MLIR_CAPI_EXPORTED void reproCPULevels(MlirStringCallback callback,
                                       void *userData);

/** Passes the name of the best level that this machine runs to `callback`. */
MLIR_CAPI_EXPORTED void reproCPUHostLevel(MlirStringCallback callback,
                                          void *userData);

/** Passes the names of the levels whose code this machine runs to `callback`,
 * worst first, separated by ", ". */
MLIR_CAPI_EXPORTED void reproCPURunnableLevels(MlirStringCallback callback,
                                               void *userData);

/** Compiles a canonical program in up to `jobs` threads and passes the artifact
 * (lib/Runtime/Artifact.h) to `callback`. Errors are emitted as diagnostics. */
MLIR_CAPI_EXPORTED MlirLogicalResult
reproCPUCompile(MlirModule module, MlirStringRef level, unsigned jobs,
                bool timing, MlirStringCallback callback, void *userData);

/** Compiles a canonical program to an object for the microcontroller `level`
 * (Codegen/CPU/Lowering/EmitStep.h). `initial` has the bytes of each state, or
 * `numInitial` is 0. Calls `callback` with the object and with the plan, and
 * sets `sizes` to the bytes of code, of constants and of memory. With `timing`,
 * prints the time of each pass to stderr. Errors are emitted as diagnostics. */
MLIR_CAPI_EXPORTED MlirLogicalResult reproMicrocontrollerCompile(
    MlirModule module, MlirStringRef level, MlirStringRef name,
    const MlirStringRef *initial, intptr_t numInitial, bool timing,
    uint64_t sizes[3], MlirStringCallback callback, void *userData);

/** Calls `callback` three times: with the plan, the text about the kernels,
 * and their assembly (Pipelines/CPU.h). Errors are emitted as diagnostics. */
MLIR_CAPI_EXPORTED MlirLogicalResult
reproCPUAnalyze(MlirModule module, MlirStringRef level, unsigned jobs,
                MlirStringCallback callback, void *userData);

typedef struct {
  void *ptr;
} ReproLoadedArtifact;

typedef enum {
  ReproTensorState = 0,
  ReproTensorInput = 1,
  ReproTensorOutput = 2
} ReproTensorKind;

/** Loads an artifact. On failure, passes one message to `error` and returns a
 * null pointer. */
MLIR_CAPI_EXPORTED ReproLoadedArtifact
reproLoadedArtifactCreate(MlirStringRef artifact, unsigned threads,
                          MlirStringCallback error, void *userData);
MLIR_CAPI_EXPORTED void reproLoadedArtifactDestroy(ReproLoadedArtifact loaded);

MLIR_CAPI_EXPORTED intptr_t reproLoadedArtifactGetNumTensors(
    ReproLoadedArtifact loaded, ReproTensorKind kind);
/** Gets a tensor. `name`, `element` and `shape` are valid while the artifact is
 * loaded. */
MLIR_CAPI_EXPORTED void
reproLoadedArtifactGetTensor(ReproLoadedArtifact loaded, ReproTensorKind kind,
                             intptr_t index, MlirStringRef *name,
                             MlirStringRef *element, uint64_t *bytes,
                             const uint64_t **shape, intptr_t *rank);

MLIR_CAPI_EXPORTED uint64_t
reproLoadedArtifactGetArenaBytes(ReproLoadedArtifact loaded);
MLIR_CAPI_EXPORTED unsigned
reproLoadedArtifactGetThreads(ReproLoadedArtifact loaded);
MLIR_CAPI_EXPORTED intptr_t
reproLoadedArtifactGetNumLaunches(ReproLoadedArtifact loaded);
MLIR_CAPI_EXPORTED MlirStringRef
reproLoadedArtifactGetLaunchKernel(ReproLoadedArtifact loaded, intptr_t index);

/** Runs one step; `buffers` lists the states, inputs and outputs in this order.
 * On failure `error` receives the message and the states are unchanged. */
MLIR_CAPI_EXPORTED MlirLogicalResult
reproLoadedArtifactRun(ReproLoadedArtifact loaded, void *const *buffers,
                       MlirStringCallback error, void *userData);

/** Runs one step and measures it. `nanoseconds` receives the time of each
 * launch; `counts` receives, launch by launch, the increment of each counter,
 * or UINT64_MAX if it could not be read. A counter is a file descriptor from
 * which eight bytes are read (perf_event_open). */
MLIR_CAPI_EXPORTED MlirLogicalResult reproLoadedArtifactProfile(
    ReproLoadedArtifact loaded, void *const *buffers, const int *counters,
    intptr_t numCounters, uint64_t *nanoseconds, uint64_t *counts,
    MlirStringCallback error, void *userData);

#ifdef __cplusplus
}
#endif

#endif /* REPRO_CAPI_CPU_H */
