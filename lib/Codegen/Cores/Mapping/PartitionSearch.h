//===- PartitionSearch.h - Partitions that agree ----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A dynamic program over the launches of a plan: it chooses the partitions so
// that the predicted time of all launches is short, with the transfers of each
// tensor between the cores that write it and those that read it. A state of the
// program has the partitions of the launches whose tensors are still read, and
// which of these tensors stay in the memories of cores. The states after each
// launch are a beam: the best ones of a fixed number.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_PARTITIONSEARCH_H
#define REPRO_CODEGEN_CORES_MAPPING_PARTITIONSEARCH_H

#include "Mapping.h"

namespace mlir::repro::cores {

/// Returns the partition of each launch. If the plan has too many pieces for a
/// search, each partition is the best one if all tensors lie in the DRAM. Emits
/// errors of the expansion of tiles.
FailureOr<std::vector<SmallVector<int64_t>>>
searchPartitions(ArrayRef<MappedLaunch> launches, Value arena,
                 const ManyCore &machine);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_PARTITIONSEARCH_H
