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

/// The number of work items of a kernel in one call, and the kernel's scratch
/// size.
struct KernelWork {
  uint64_t items, scratchBytes;
};

/// A copy of kernels that counts how often each basic block runs. It runs on
/// this machine, even if the kernels are for another target. Its loads from
/// buffers yield 0, which hardly affects the counts.
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
  /// become 0.
  void removeEffects();

  /// Compiles the copy for this machine at `level` after running `passes`;
  /// `getBuffer` returns each buffer's fictitious address. Fails if a loop has
  /// no exit or a kernel needs more than 1 GiB of scratch memory.
  llvm::Error load(const llvm::StringMap<KernelWork> &work,
                   llvm::function_ref<uint64_t(unsigned)> getBuffer,
                   llvm::StringRef passes, llvm::CodeGenOptLevel level);

  /// Returns the address of a global variable of the loaded copy.
  llvm::Expected<llvm::orc::ExecutorAddr> lookup(llvm::StringRef name) {
    return jit->lookup(name);
  }

  /// Calls each kernel of the loaded copy with all its work items. Returns an
  /// error if the loops of all kernels take more than 2^32 iterations together.
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
