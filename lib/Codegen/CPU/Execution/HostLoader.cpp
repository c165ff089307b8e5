//===- HostLoader.cpp - Loads artifacts into this process -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Execution/HostLoader.h"

#include "Runtime/Artifact.h"
#include "Runtime/Routines.h"
#include "Target/Level.h"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Support/TargetSelect.h"

#include <cstring>

using namespace llvm;
using namespace mlir::repro;

static constexpr ::repro_runtime::Machine hostMachine =
#if defined(__aarch64__)
    ::repro_runtime::Machine::AArch64;
#else
    ::repro_runtime::Machine::X86_64;
#endif

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
  const Level *level = findLevel(artifact.level);
  if (!level) {
    error = "artifact of the unknown level '" + artifact.level +
            "', expected one of " + listLevels();
    return nullptr;
  }
  if (!runsOnHost(*level)) {
    error = "artifact for " + artifact.level + ", but this machine is " +
            getHostLevel().name;
    return nullptr;
  }

  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  auto take = [&](Error failure) {
    if (!failure)
      return false;
    error = "cannot load the object code: " + toString(std::move(failure));
    return true;
  };
  auto jit = orc::LLJITBuilder().create();
  if (!jit) {
    take(jit.takeError());
    return nullptr;
  }
  result->jit = std::move(*jit);
  orc::LLJIT &loader = *result->jit;
  auto symbol = [&](StringRef name, auto *function) {
    return std::pair(loader.mangleAndIntern(name),
                     orc::ExecutorSymbolDef(
                         orc::ExecutorAddr::fromPtr(function),
                         JITSymbolFlags::Exported | JITSymbolFlags::Callable));
  };
  orc::SymbolMap runtime;
  runtime.insert(symbol("repro_fma", &repro_fma));
  runtime.insert(symbol("repro_fmod", &repro_fmod));
  runtime.insert(symbol("memcpy", &std::memcpy));
  runtime.insert(symbol("memset", &std::memset));
  runtime.insert(symbol("memmove", &std::memmove));
  if (take(loader.getMainJITDylib().define(orc::absoluteSymbols(runtime))))
    return nullptr;
  for (::repro_runtime::Bytes object : artifact.objects)
    if (take(loader.addObjectFile(MemoryBuffer::getMemBuffer(
            StringRef(object.data, object.size), "object",
            /*RequiresNullTerminator=*/false))))
      return nullptr;
  auto table = loader.lookup("repro_kernels");
  if (!table) {
    take(table.takeError());
    return nullptr;
  }
  auto *entries = table->toPtr<const ::repro_runtime::KernelEntry *>();
  std::vector<::repro_runtime::KernelEntry> kernels(
      entries, entries + artifact.plan.kernels.size());
  result->executor = std::make_unique<::repro_runtime::Executor>(
      std::move(artifact.plan), artifact.constants, std::move(kernels),
      threads);
  return result;
}
