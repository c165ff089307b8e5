//===- LineAccesses.h - Cache misses of basic blocks ------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_ANALYSIS_LINEACCESSES_H
#define REPRO_CODEGEN_CPU_ANALYSIS_LINEACCESSES_H

#include "Codegen/CPU/Analysis/KernelCopy.h"
#include "Target/Level.h"

#include <vector>

namespace mlir::repro {

/// The cache misses of one basic block, over all its executions.
struct LineAccesses {
  /// `missed` is the number of lines loaded from beyond the L2 cache, plus the
  /// number of lines written back: a line that a store misses counts twice.
  /// `scattered` counts only the lines that no hardware prefetcher loads.
  uint64_t missed = 0, scattered = 0;
};

/// Counts the misses of the kernels in `module` by simulating their accesses to
/// the L2 cache of `level`. The simulated cache is empty at first. If a kernel
/// has many accesses, only the first ones are simulated; their misses are
/// scaled to all executions.
///
/// Args:
///   runs: how often each basic block runs, in module order.
llvm::Expected<std::vector<LineAccesses>>
traceLines(const llvm::Module &module, const llvm::StringMap<KernelWork> &work,
           const Level &level, llvm::ArrayRef<uint64_t> runs);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_ANALYSIS_LINEACCESSES_H
