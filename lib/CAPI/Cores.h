/*===- Cores.h - C API for machines of many cores -------------------*- C -*-===
 *
 * Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef REPRO_CAPI_CORES_H
#define REPRO_CAPI_CORES_H

#include "CAPI/CPU.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Maps a canonical program onto a machine of many cores, in up to `jobs`
 * threads, and passes the core plan (docs/reference/core-plan.md) to
 * `callback`. `machine` is a description as for getManyCore in
 * lib/Target/ManyCore.h: a name, the path of a file, or a name and a text. The
 * kernels are compiled for a CPU level. With `timing`, prints the time of each
 * pass to stderr. Errors are emitted as diagnostics. */
MLIR_CAPI_EXPORTED MlirLogicalResult reproCoresCompile(
    MlirModule module, MlirStringRef machine, MlirStringRef level,
    unsigned jobs, bool timing, MlirStringCallback callback, void *userData);

/** Maps a canonical program onto a machine, and passes a description of the
 * mapping as JSON (docs/guides/many-cores.md) to `callback`, without making the
 * programs of the cores. `machine` is as for reproCoresCompile. */
MLIR_CAPI_EXPORTED MlirLogicalResult
reproCoresDescribe(MlirModule module, MlirStringRef machine,
                   MlirStringCallback callback, void *userData);

/** A core plan that is loaded into a simulator. */
typedef struct {
  void *ptr;
} ReproLoadedCorePlan;

/** Loads a core plan. On failure, passes one message to `error` and returns a
 * null pointer. */
MLIR_CAPI_EXPORTED ReproLoadedCorePlan reproLoadedCorePlanCreate(
    MlirStringRef plan, MlirStringCallback error, void *userData);
MLIR_CAPI_EXPORTED void reproLoadedCorePlanDestroy(ReproLoadedCorePlan loaded);

MLIR_CAPI_EXPORTED intptr_t reproLoadedCorePlanGetNumTensors(
    ReproLoadedCorePlan loaded, ReproTensorKind kind);
/** Gets a tensor. `name`, `element` and `shape` are valid while the plan is
 * loaded. */
MLIR_CAPI_EXPORTED void
reproLoadedCorePlanGetTensor(ReproLoadedCorePlan loaded, ReproTensorKind kind,
                             intptr_t index, MlirStringRef *name,
                             MlirStringRef *element, const uint64_t **shape,
                             intptr_t *rank);

typedef enum {
  ReproSimulationSuccess = 0,
  /** A check of the program failed; the states are unchanged. */
  ReproSimulationCheckFailed = 1,
  /** The plan has a race, a deadlock or another error; the states and outputs
   * are undefined. */
  ReproSimulationWrongPlan = 2,
  /** `isInterrupted` returned true; the states and outputs are undefined. */
  ReproSimulationInterrupted = 3
} ReproSimulationOutcome;

/** Simulates one step; `buffers` lists the states, inputs and outputs in this
 * order. Passes the measurements as JSON (docs/guides/many-cores.md) to
 * `report` after a success, else one message to `error`. The step ends soon
 * after `isInterrupted`, which is called many times in a second, returns
 * true. */
MLIR_CAPI_EXPORTED ReproSimulationOutcome reproLoadedCorePlanRun(
    ReproLoadedCorePlan loaded, void *const *buffers, bool timeline,
    bool (*isInterrupted)(void), MlirStringCallback report,
    MlirStringCallback error, void *userData);

#ifdef __cplusplus
}
#endif

#endif /* REPRO_CAPI_CORES_H */
