/*===- CPU.h - C API of compiling for and running on CPUs -----------*- C -*-===
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

/** The names of the levels, separated by ", ". */
MLIR_CAPI_EXPORTED void reproCPULevels(MlirStringCallback callback,
                                       void *userData);

/** The name of the best level that this machine runs. */
MLIR_CAPI_EXPORTED void reproCPUHostLevel(MlirStringCallback callback,
                                          void *userData);

/** The names of the levels whose code this machine runs, worst first, separated
 * by ", ". */
MLIR_CAPI_EXPORTED void reproCPURunnableLevels(MlirStringCallback callback,
                                               void *userData);

/** Compiles a canonical program in up to `jobs` threads and hands the artifact
 * (lib/Runtime/Artifact.h) to `callback`. Errors are diagnostics. */
MLIR_CAPI_EXPORTED MlirLogicalResult
reproCPUCompile(MlirModule module, MlirStringRef level, unsigned jobs,
                bool timing, MlirStringCallback callback, void *userData);

/** Hands plan, operands of the kernels and their assembly (Pipelines/CPU.h), in
 * three calls, to `callback`. Errors are diagnostics. */
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

/** Loads an artifact; a null pointer after `error` has received one message. */
MLIR_CAPI_EXPORTED ReproLoadedArtifact
reproLoadedArtifactCreate(MlirStringRef artifact, unsigned threads,
                          MlirStringCallback error, void *userData);
MLIR_CAPI_EXPORTED void reproLoadedArtifactDestroy(ReproLoadedArtifact loaded);

MLIR_CAPI_EXPORTED intptr_t reproLoadedArtifactGetNumTensors(
    ReproLoadedArtifact loaded, ReproTensorKind kind);
/** Name, element type and shape live as long as the loaded artifact. */
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

/** Runs one step on the buffers of states, inputs and outputs in this order.
 * On failure `error` receives the message and the states are as before. */
MLIR_CAPI_EXPORTED MlirLogicalResult
reproLoadedArtifactRun(ReproLoadedArtifact loaded, void *const *buffers,
                       MlirStringCallback error, void *userData);

/** The same. `nanoseconds` gets the time of each launch; `counts`, launch after
 * launch, how far each counter went on: a file descriptor that gives its value
 * as eight bytes (perf_event_open), or UINT64_MAX where it cannot be read. */
MLIR_CAPI_EXPORTED MlirLogicalResult reproLoadedArtifactProfile(
    ReproLoadedArtifact loaded, void *const *buffers, const int *counters,
    intptr_t numCounters, uint64_t *nanoseconds, uint64_t *counts,
    MlirStringCallback error, void *userData);

#ifdef __cplusplus
}
#endif

#endif /* REPRO_CAPI_CPU_H */
