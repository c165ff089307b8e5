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

/// The first part of the pipeline `cores-map`: a launch plan, each launch of
/// which has its pieces, tiles and cores.
void buildCoresPlacePipeline(OpPassManager &manager, StringRef machine,
                             const Level &level);

/// Pipeline `cores-map`: maps a canonical program onto a machine of many cores,
/// whose name or file is given. The result is a verified `cores.plan` and
/// kernel functions.
void buildCoresMapPipeline(OpPassManager &manager, StringRef machine,
                           const Level &level);

/// Compiles a copy of a canonical program to the bytes of a core plan
/// (docs/reference/core-plan.md). The kernels' code is for a CPU level. Errors
/// are emitted as diagnostics. Up to `jobs` threads generate code.
FailureOr<std::string> compileForCores(ModuleOp canonical, StringRef machine,
                                       const Level &level, unsigned jobs);

/// Maps a copy of a canonical program, without making the programs of the
/// cores, and describes the mapping (see describeMapping). Errors are emitted
/// as diagnostics.
FailureOr<std::string> describeForCores(ModuleOp canonical, StringRef machine,
                                        const Level &level);

/// Registers `cores-map` and `cores`, which also lowers the kernels.
void registerCoresPipelines();

} // namespace mlir::repro

#endif // REPRO_PIPELINES_CORES_H
