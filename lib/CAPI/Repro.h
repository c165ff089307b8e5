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

/** Registers every pass and pipeline; further calls do nothing. */
MLIR_CAPI_EXPORTED void reproRegisterPasses(void);

/** (H2) Writes the 32 bytes of a canonical program's hash; `version` is 2, or 1
 * for the identity of old receipts. Calls `onError` with each error, location
 * first, and returns false where the module is none. */
MLIR_CAPI_EXPORTED bool reproProgramHash(MlirModule module, int version,
                                         uint8_t *hash,
                                         MlirStringCallback onError,
                                         void *userData);

/** (H4) Likewise, of an imported program of many sizes. */
MLIR_CAPI_EXPORTED bool reproSymbolicHash(MlirModule module, uint8_t *hash,
                                          MlirStringCallback onError,
                                          void *userData);

/** Calls `onBytes` with the bytes of a canonical program as it is stored
 * (docs/identity.md), part by part. Fails as reproProgramHash does. */
MLIR_CAPI_EXPORTED bool
reproWriteProgram(MlirModule module, MlirStringCallback onBytes,
                  void *bytesData, MlirStringCallback onError, void *errorData);

/** The canonical module whose bytes these are. Calls `onError` with each error
 * and returns a null module where they are no stored program. */
MLIR_CAPI_EXPORTED MlirModule reproReadProgram(MlirContext context,
                                               MlirStringRef bytes,
                                               MlirStringCallback onError,
                                               void *userData);

/** The types of the elements that the operation multiplies, if it is a
 * contraction (K1) whose sum may be chosen: (K4), but for the number of its
 * reduction elements, or (M4). Else false. */
MLIR_CAPI_EXPORTED bool reproGetMultipliedTypes(MlirOperation op, MlirType *x,
                                                MlirType *y);

/** Calls `onRole` with each contraction of `main` whose sum may be chosen, in
 * program order: its role, what its factors are ("activation", "weight",
 * "gradient" or "none"), the argument that is the layer's weight and the number
 * of the layer's contraction in the forward pass, both -1 where there is none.
 * `numState` of the first arguments are state. `loss` is the result that is the
 * loss, or -1 for the one that is named `lossName`. Fails as reproProgramHash
 * does. */
MLIR_CAPI_EXPORTED bool reproContractionRoles(
    MlirModule module, int64_t numState, bool hasNewState, int64_t loss,
    MlirStringRef lossName,
    void (*onRole)(MlirOperation contraction, MlirStringRef role,
                   MlirStringRef left, MlirStringRef right, int64_t weight,
                   int64_t forward, void *userData),
    void *roleData, MlirStringCallback onError, void *errorData);

/** The main functions of the tools; that of repro-opt reads stored programs
 * (docs/identity.md) as well as text. */
MLIR_CAPI_EXPORTED int reproOptMain(int argc, char **argv);
MLIR_CAPI_EXPORTED int reproLspServerMain(int argc, char **argv);
MLIR_CAPI_EXPORTED int reproTranslateMain(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif /* REPRO_CAPI_REPRO_H */
