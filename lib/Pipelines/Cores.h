//===- Cores.h - Maps canonical programs onto many cores --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_PIPELINES_CORES_H
#define REPRO_PIPELINES_CORES_H

#include "Target/Level.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::repro {

/// How a program is mapped onto a machine, whose name or file is given.
struct CoreMappingOptions {
  std::string machine;
  std::string cuts = "gain";       ///< of `repro-map-split`
  std::string strategy = "time";   ///< of `repro-map-partition`
  std::string multicasts = "time"; ///< of `repro-map-tile`
  std::string homes = "cores";     ///< of `repro-map-place`
  /// Whether the plan is verified, which erases the launch plan.
  bool verify = true;
};

/// The first part of the pipeline `cores-map`: a launch plan, each launch of
/// which has its pieces, tiles and cores.
void buildCoresPlacePipeline(OpPassManager &manager,
                             const CoreMappingOptions &options);

/// Pipeline `cores-map`: maps a canonical program onto a machine of many cores.
/// The result is a `cores.plan` and kernel functions.
void buildCoresMapPipeline(OpPassManager &manager,
                           const CoreMappingOptions &options);

/// Pipeline `cores-lower`: converts the kernel functions of a `cores.plan` to
/// the LLVM dialect.
void buildCoresLowerPipeline(OpPassManager &manager, const Level &level);

/// Compiles a copy of a canonical program to the bytes of a core plan
/// (docs/reference/core-plan.md). The kernels' code is for `level`, on which
/// only the code, its sizes and its work items depend. Errors are emitted as
/// diagnostics. Up to `jobs` threads generate code. With `timing`, the time of
/// each pass is printed to stderr.
FailureOr<std::string> compileForCores(ModuleOp canonical, StringRef machine,
                                       const Level &level, unsigned jobs,
                                       bool timing);

/// Maps a copy of a canonical program, without making the programs of the
/// cores, and describes the mapping (see describeMapping). Errors are emitted
/// as diagnostics.
FailureOr<std::string> describeForCores(ModuleOp canonical, StringRef machine);

/// Registers `cores-map` and `cores-lower`.
void registerCoresPipelines();

} // namespace mlir::repro

#endif // REPRO_PIPELINES_CORES_H
