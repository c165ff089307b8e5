/*===- Machines.h - C API for machines of many cores ----------------*- C -*-===
 *
 * Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef REPRO_CAPI_MACHINES_H
#define REPRO_CAPI_MACHINES_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Passes the names of the machines to `callback`, separated by ", ". */
MLIR_CAPI_EXPORTED void reproManyCoreMachines(MlirStringCallback callback,
                                              void *userData);

/** Passes the complete description of a machine, as JSON, to `callback`. The
 * machine is a name, or the path of a file. On failure, passes one message to
 * `error`. */
MLIR_CAPI_EXPORTED MlirLogicalResult
reproManyCoreText(MlirStringRef nameOrPath, MlirStringCallback callback,
                  MlirStringCallback error, void *userData);

/** Returns the cycles that the array of multipliers of a core takes to add
 * `depth` products (ManyCore::getMatrixCycles). Returns 0, and passes one
 * message to `error`, if there is no such machine or it has no array. */
MLIR_CAPI_EXPORTED double reproManyCoreMatrixCycles(MlirStringRef nameOrPath,
                                                    int64_t depth,
                                                    MlirStringCallback error,
                                                    void *userData);

#ifdef __cplusplus
}
#endif

#endif /* REPRO_CAPI_MACHINES_H */
