//===- BlockCounts.h - How often blocks of code run ---------- -*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_ANALYSIS_BLOCKCOUNTS_H
#define REPRO_CODEGEN_CPU_ANALYSIS_BLOCKCOUNTS_H

#include "llvm/ADT/StringMap.h"

#include <cstdint>
#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::repro {

/// What one call of a kernel has.
struct KernelWork {
  uint64_t items, scratchBytes;
};

/// Names each block of the kernels in `module` `runs.N.`, for a block that runs
/// N times in one call with all work items of its kernel. Gives the empty
/// string or an error.
///
/// A copy of the code that does nothing but count runs on this machine, with
/// zeros for all that is loaded from buffers: the control flow of kernels
/// hardly depends on data. So code for any machine is counted here.
std::string nameBlocksByCount(llvm::Module &module,
                              const llvm::StringMap<KernelWork> &work);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_ANALYSIS_BLOCKCOUNTS_H
