//===- KernelCopy.h - Kernel copies that run without data -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_ANALYSIS_KERNELCOPY_H
#define REPRO_CODEGEN_CPU_ANALYSIS_KERNELCOPY_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/CodeGen.h"

#include <cstdint>

namespace llvm {
class Function;
} // namespace llvm

namespace mlir::repro {

/// The number of work items and the scratch size of one call of a kernel.
struct KernelWork {
  uint64_t items, scratchBytes;
};

/// A copy of kernels of any target, which runs on this machine. The copy
/// executes the same blocks as the kernels but computes no results: every load
/// from a buffer yields zero. This is enough because the control flow of
/// kernels hardly depends on data.
class KernelCopy {
public:
  explicit KernelCopy(const llvm::Module &original);

  llvm::Module &getModule() { return *module; }
  /// Returns the kernels in module order.
  llvm::ArrayRef<llvm::Function *> getKernels() const { return kernels; }

  /// The name of the scratch memory that all kernels share.
  static constexpr char scratchName[] = "repro_scratch";
  static uint64_t getScratchBytes(const llvm::StringMap<KernelWork> &work);

  /// Removes everything except control flow, the values that control flow
  /// depends on, and indirect calls. Results of target-specific intrinsics
  /// become zero.
  void removeEffects();

  /// Compiles the copy for this machine at `level`. No memory backs the
  /// addresses of buffers. Returns an error if a loop never ends or a kernel
  /// needs more than 1 GiB of scratch memory.
  llvm::Error load(const llvm::StringMap<KernelWork> &work,
                   llvm::function_ref<uint64_t(unsigned)> getBuffer,
                   llvm::StringRef passes, llvm::CodeGenOptLevel level);

  /// Returns the address of a variable of the loaded copy.
  llvm::Expected<llvm::orc::ExecutorAddr> lookup(llvm::StringRef name) {
    return jit->lookup(name);
  }

  /// Calls each kernel of the loaded copy with all its work items. Returns an
  /// error if loops run too long.
  llvm::Error run();

private:
  void addRun(const llvm::StringMap<KernelWork> &work,
              llvm::function_ref<uint64_t(unsigned)> getBuffer);

  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  llvm::SmallVector<llvm::Function *> kernels;
};

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_ANALYSIS_KERNELCOPY_H
