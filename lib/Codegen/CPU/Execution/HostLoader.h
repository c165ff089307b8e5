//===- HostLoader.h - Loads artifacts into this process ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_HOSTLOADER_H
#define REPRO_CODEGEN_CPU_HOSTLOADER_H

#include "Codegen/CPU/Execution/LoadedObjects.h"

namespace mlir::repro {

/// An artifact that is loaded into this process, ready to run.
class LoadedArtifact {
public:
  /// Copies and loads an artifact, to be run with `threads` threads. Returns
  /// null and sets `error` if the artifact is damaged or was made for another
  /// machine.
  static std::unique_ptr<LoadedArtifact>
  create(llvm::StringRef artifact, unsigned threads, std::string &error);
  ~LoadedArtifact();

  ::repro_runtime::Executor &getExecutor() { return *executor; }

private:
  LoadedArtifact();

  std::string bytes;
  std::unique_ptr<LoadedObjects> objects;
  std::unique_ptr<::repro_runtime::Executor> executor;
};

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_HOSTLOADER_H
