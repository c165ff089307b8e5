//===- BlockCounts.h - Run counts of basic blocks ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_ANALYSIS_BLOCKCOUNTS_H
#define REPRO_CODEGEN_CPU_ANALYSIS_BLOCKCOUNTS_H

#include "Codegen/CPU/Analysis/LineAccesses.h"

#include <string>

namespace mlir::repro {

/// Gives each basic block of the kernels in `module` the name `runs.R.`, where
/// R is how often the block runs in one call with all work items. If accesses
/// of the block miss the cache, the name continues with
/// `missed.M.scattered.S.`, where M and S are the counts of `LineAccesses`.
/// Returns an error message, empty on success.
std::string nameBlocksByCount(llvm::Module &module,
                              const llvm::StringMap<KernelWork> &work,
                              const Level &level);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_ANALYSIS_BLOCKCOUNTS_H
