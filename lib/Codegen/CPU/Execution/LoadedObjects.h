//===- LoadedObjects.h - Loads object code into this process ----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_LOADEDOBJECTS_H
#define REPRO_CODEGEN_CPU_LOADEDOBJECTS_H

#include "Runtime/Executor.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace mlir::repro {

/// Objects that emitObjects has made, loaded into this process.
class LoadedObjects {
public:
  /// Loads objects for a CPU level, which together define `numKernels` kernels.
  /// The bytes of the objects must outlive the result. On failure, returns null
  /// and sets `error`; `what` contains the objects. If `hasArrays`, the kernels
  /// may use the matrix array of a simulated core.
  static std::unique_ptr<LoadedObjects>
  create(llvm::StringRef what, llvm::ArrayRef<::repro_runtime::Bytes> objects,
         llvm::StringRef level, size_t numKernels, bool hasArrays,
         std::string &error);
  ~LoadedObjects();

  const std::vector<::repro_runtime::KernelEntry> &getKernels() const {
    return kernels;
  }

private:
  LoadedObjects();

  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::vector<::repro_runtime::KernelEntry> kernels;
};

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_LOADEDOBJECTS_H
