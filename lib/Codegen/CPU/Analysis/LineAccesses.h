//===- LineAccesses.h - Which cache lines code reads ---------- -*- C++ -*-===//
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

/// Of a block of code, in all its runs.
struct LineAccesses {
  /// Lines from beyond the L2 cache, and those among them that no long run of
  /// neighbouring lines led to, so that no prefetcher has them. Those of a
  /// store count twice: they are fetched, and written back.
  uint64_t missed = 0, scattered = 0;
};

/// Follows the addresses of the kernels in `module` through an L2 cache of the
/// level, which begins empty. Of a kernel with many accesses the first ones
/// stand for the others of the same blocks.
///
/// Arguments:
///   runs: how often each block runs, in the order of the module.
llvm::Expected<std::vector<LineAccesses>>
traceLines(const llvm::Module &module, const llvm::StringMap<KernelWork> &work,
           const Level &level, llvm::ArrayRef<uint64_t> runs);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_ANALYSIS_LINEACCESSES_H
