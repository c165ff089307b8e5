//===- Pipelines.h - Pipelines of the compiler's stages ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_PIPELINES_PIPELINES_H
#define REPRO_PIPELINES_PIPELINES_H

namespace mlir {
class OpPassManager;
namespace repro {

/// Pipeline `import-linalg`: converts imported linalg to imported repro
/// operations.
void buildImportLinalgPipeline(OpPassManager &pm);

/// Pipeline `import-tosa`: converts TOSA to imported repro operations.
void buildImportTosaPipeline(OpPassManager &pm);

/// Pipeline `canonical`: converts imported repro operations to the canonical
/// program.
void buildCanonicalPipeline(OpPassManager &pm);

/// Registers `import-linalg`, `import-tosa` and `canonical`.
void registerImportPipelines();

/// The features of a target that determine how its kernels are scheduled.
struct ScheduleOptions {
  /// (K4), (Q4) The target has matrix instructions on bytes.
  bool hasByteMatrices = false;
  /// (K4) The target multiplies bytes and adds the products exactly, but has no
  /// kernel for a whole contraction.
  bool hasByteArrays = false;
  /// The target has kernels that compute several operations on blocks of rows.
  bool fuseRows = false;
  /// The target has kernels that compute a contraction and operations on its
  /// results.
  bool fuseEpilogues = false;
};

/// Pipeline `schedule`, for all targets: converts a canonical program to kernel
/// functions and a `main` with planned buffers.
void buildSchedulePipeline(OpPassManager &manager,
                           const ScheduleOptions &options);

/// Registers the pipeline `schedule`.
void registerSchedulePipeline();

} // namespace repro
} // namespace mlir

#endif // REPRO_PIPELINES_PIPELINES_H
