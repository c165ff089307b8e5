//===- Description.h - Where a mapped plan spends its time ------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_DESCRIPTION_H
#define REPRO_CODEGEN_CORES_MAPPING_DESCRIPTION_H

#include "Target/ManyCore.h"
#include "dialects/Launch/IR/Launch.h"

#include <string>

namespace mlir::repro::cores {

/// Describes a launch plan that the passes up to repro-map-place have mapped,
/// as JSON: the tensors, and for each launch its cores, memory, cycles, bytes
/// and times (docs/guides/many-cores.md). The time and the memory that this
/// takes do not depend on the number of tiles.
FailureOr<std::string> describeMapping(launch::PlanOp plan,
                                       const ManyCore &machine);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_DESCRIPTION_H
