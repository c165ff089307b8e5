/*===- Repro.h - C API of the compiler ------------------------------*- C -*-===
 *
 * Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef REPRO_CAPI_REPRO_H
#define REPRO_CAPI_REPRO_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Repro, repro);

/** Registers every dialect of the pipelines. */
MLIR_CAPI_EXPORTED void reproRegisterDialects(MlirDialectRegistry registry);

/** Registers every pass and pipeline; repeated calls have no effect. */
MLIR_CAPI_EXPORTED void reproRegisterPasses(void);

/** (H2) Computes the hash of a canonical program (32 bytes). If the module is
 * not a canonical program, calls `onError` with each error, location first, and
 * returns false. */
MLIR_CAPI_EXPORTED bool reproProgramHash(MlirModule module, uint8_t *hash,
                                         MlirStringCallback onError,
                                         void *userData);

/** (H4) Computes the hash of an imported program with symbolic sizes in the
 * same way. */
MLIR_CAPI_EXPORTED bool reproSymbolicHash(MlirModule module, uint8_t *hash,
                                          MlirStringCallback onError,
                                          void *userData);

/** Calls `onBytes` with consecutive parts of a canonical program in the stored
 * format (docs/verification/identity.md). Fails as reproProgramHash does. */
MLIR_CAPI_EXPORTED bool
reproWriteProgram(MlirModule module, MlirStringCallback onBytes,
                  void *bytesData, MlirStringCallback onError, void *errorData);

/** Returns the canonical module that `bytes` store. If `bytes` are not a stored
 * program, calls `onError` with each error and returns a null module. */
MLIR_CAPI_EXPORTED MlirModule reproReadProgram(MlirContext context,
                                               MlirStringRef bytes,
                                               MlirStringCallback onError,
                                               void *userData);

/** Gets the element types that the operation multiplies if it is a contraction
 * (K1) whose accumulation may be chosen: (K4), regardless of its number of
 * reduction elements, or (M4). Otherwise returns false. */
MLIR_CAPI_EXPORTED bool reproGetMultipliedTypes(MlirOperation op, MlirType *x,
                                                MlirType *y);

/** Calls `onRole` with each contraction of `main` whose accumulation may be
 * chosen, in program order: its role, the types of its factors ("activation",
 * "weight", "gradient" or "none"), the argument that is the layer's weight, and
 * the number of the layer's contraction in the forward pass (both -1 if there
 * is none). The first `numState` arguments are state. `loss` is the index of
 * the loss result, or -1 to find it by `lossName`. Fails as reproProgramHash
 * does. */
MLIR_CAPI_EXPORTED bool reproContractionRoles(
    MlirModule module, int64_t numState, bool hasNewState, int64_t loss,
    MlirStringRef lossName,
    void (*onRole)(MlirOperation contraction, MlirStringRef role,
                   MlirStringRef left, MlirStringRef right, int64_t weight,
                   int64_t forward, void *userData),
    void *roleData, MlirStringCallback onError, void *errorData);

/** The main functions of the tools. repro-opt reads stored programs
 * (docs/verification/identity.md) as well as text. */
MLIR_CAPI_EXPORTED int reproOptMain(int argc, char **argv);
MLIR_CAPI_EXPORTED int reproLspServerMain(int argc, char **argv);
MLIR_CAPI_EXPORTED int reproTranslateMain(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif /* REPRO_CAPI_REPRO_H */
