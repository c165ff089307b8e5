//===- Pipelines.h - The stages of docs/architecture.md ---------*- C++ -*-===//
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

/// Imported linalg to imported repro: pipeline `import-linalg`.
void buildImportLinalgPipeline(OpPassManager &pm);

/// TOSA to imported repro: pipeline `import-tosa`.
void buildImportTosaPipeline(OpPassManager &pm);

/// Imported repro to the canonical program: pipeline `canonical`.
void buildCanonicalPipeline(OpPassManager &pm);

/// Registers the three under their names.
void registerImportPipelines();

/// What the kernels of a target can be.
struct ScheduleOptions {
  /// (K4), (Q4) the target has matrix instructions on bytes.
  bool hasByteMatrices = false;
  /// The target has kernels of several operations on blocks of rows.
  bool fuseRows = false;
  /// The target has kernels of contractions and operations on their results.
  bool fuseEpilogues = false;
};

/// A canonical program becomes kernel functions and a planned `main`, for all
/// targets: pipeline `schedule`.
void buildSchedulePipeline(OpPassManager &manager,
                           const ScheduleOptions &options);

void registerSchedulePipeline();

} // namespace repro
} // namespace mlir

#endif // REPRO_PIPELINES_PIPELINES_H
