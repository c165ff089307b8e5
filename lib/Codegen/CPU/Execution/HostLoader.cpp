//===- HostLoader.cpp - Loads artifacts into this process -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Execution/HostLoader.h"

#include "Runtime/Artifact.h"

#include "llvm/Support/Alignment.h"

#include <cstring>

using namespace llvm;
using namespace mlir::repro;

LoadedArtifact::LoadedArtifact() = default;
LoadedArtifact::~LoadedArtifact() {
  // The worker threads must end before the code that they run is unloaded.
  executor.reset();
}

std::unique_ptr<LoadedArtifact> LoadedArtifact::create(StringRef artifactBytes,
                                                       unsigned threads,
                                                       std::string &error) {
  std::unique_ptr<LoadedArtifact> result(new LoadedArtifact);
  // Constants are aligned to 64 bytes within the artifact, so the copy must be
  // aligned too.
  constexpr size_t alignment = 64;
  result->bytes.resize(artifactBytes.size() + alignment);
  char *start = reinterpret_cast<char *>(
      llvm::alignAddr(result->bytes.data(), Align(alignment)));
  std::memcpy(start, artifactBytes.data(), artifactBytes.size());
  ::repro_runtime::Artifact artifact;
  error =
      ::repro_runtime::readArtifact({start, artifactBytes.size()}, artifact);
  if (!error.empty())
    return nullptr;
  result->objects =
      LoadedObjects::create("artifact", artifact.objects, artifact.level,
                            artifact.plan.kernels.size(),
                            /*hasArrays=*/false, error);
  if (!result->objects)
    return nullptr;
  result->executor = std::make_unique<::repro_runtime::Executor>(
      std::move(artifact.plan), artifact.constants,
      result->objects->getKernels(), threads);
  return result;
}
