/*===- GPU.h - C API for NVIDIA devices -----------------------------*- C -*-===
 *
 * Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef REPRO_CAPI_GPU_H
#define REPRO_CAPI_GPU_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Passes the names of the architectures to `callback`, separated by ", ". */
MLIR_CAPI_EXPORTED void reproGPUArchitectures(MlirStringCallback callback,
                                              void *userData);

/** Compiles a canonical program for an architecture. Calls `callback` with the
 * PTX, the launch plan (docs/reference/plan.md) and the bytes of the constants,
 * in this order. Errors are emitted as diagnostics. */
MLIR_CAPI_EXPORTED MlirLogicalResult
reproGPUCompile(MlirModule module, MlirStringRef architecture, bool timing,
                MlirStringCallback callback, void *userData);

#ifdef __cplusplus
}
#endif

#endif /* REPRO_CAPI_GPU_H */
