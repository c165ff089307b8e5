//===- KernelCopy.h - Kernels that run without data ----------- -*- C++ -*-===//
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

/// What one call of a kernel has.
struct KernelWork {
  uint64_t items, scratchBytes;
};

/// A copy of kernels for any machine that runs on this one, for what the code
/// does and not for what it computes: all that is loaded from buffers is zero.
/// The control flow of kernels hardly depends on data.
class KernelCopy {
public:
  explicit KernelCopy(const llvm::Module &original);

  llvm::Module &getModule() { return *module; }
  /// The kernels in the order of the module.
  llvm::ArrayRef<llvm::Function *> getKernels() const { return kernels; }

  /// The scratch memory, one for all kernels.
  static constexpr char scratchName[] = "repro_scratch";
  static uint64_t getScratchBytes(const llvm::StringMap<KernelWork> &work);

  /// Leaves nothing but control flow, what decides it, and calls of addresses;
  /// what instructions of a processor compute is zero, too.
  void removeEffects();

  /// Compiles it for this machine. Nothing is at the addresses of buffers. A
  /// loop that never ends and scratch memory of more than 1 GiB are errors.
  /// `level` is that of code generation.
  llvm::Error load(const llvm::StringMap<KernelWork> &work,
                   llvm::function_ref<uint64_t(unsigned)> getBuffer,
                   llvm::StringRef passes, llvm::CodeGenOptLevel level);

  /// Where a variable of the loaded copy is.
  llvm::Expected<llvm::orc::ExecutorAddr> lookup(llvm::StringRef name) {
    return jit->lookup(name);
  }

  /// Calls each kernel of the loaded copy with all its work items. Loops that
  /// take too long are an error.
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
