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

/// The cache misses of one block of code, over all its runs.
struct LineAccesses {
  /// Lines loaded from beyond the L2 cache, and the number of them outside long
  /// runs of neighbouring lines, which no prefetcher loads. A line that a store
  /// misses counts twice: it is loaded and written back.
  uint64_t missed = 0, scattered = 0;
};

/// Simulates the accesses of the kernels in `module` in an initially empty L2
/// cache of the CPU level. For a kernel with many accesses, only the first ones
/// are simulated; they represent the later accesses of the same blocks.
///
/// Args:
///   runs: how often each block runs, in module order.
llvm::Expected<std::vector<LineAccesses>>
traceLines(const llvm::Module &module, const llvm::StringMap<KernelWork> &work,
           const Level &level, llvm::ArrayRef<uint64_t> runs);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_ANALYSIS_LINEACCESSES_H
