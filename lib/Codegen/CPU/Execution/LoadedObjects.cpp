//===- LoadedObjects.cpp - Loads object code into this process ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Execution/LoadedObjects.h"

#include "Runtime/Routines.h"
#include "Simulator/MacArray.h"
#include "Target/Level.h"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

#include <cstring>

using namespace llvm;
using namespace mlir::repro;

LoadedObjects::LoadedObjects() = default;
LoadedObjects::~LoadedObjects() = default;

std::unique_ptr<LoadedObjects>
LoadedObjects::create(StringRef what, ArrayRef<::repro_runtime::Bytes> objects,
                      StringRef levelName, size_t numKernels, bool hasArrays,
                      std::string &error) {
  const Level *level = findLevel(levelName);
  if (!level) {
    error = (what + " of the unknown level '" + levelName +
             "', expected one of " + listLevels())
                .str();
    return nullptr;
  }
  if (!runsOnHost(*level)) {
    error = (what + " for " + levelName + ", but this machine is " +
             getHostLevel().name)
                .str();
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
  std::unique_ptr<LoadedObjects> result(new LoadedObjects);
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
  if (hasArrays)
    runtime.insert(symbol("repro_multiply_bytes", &repro_multiply_bytes));
  runtime.insert(symbol("memcpy", &std::memcpy));
  runtime.insert(symbol("memset", &std::memset));
  runtime.insert(symbol("memmove", &std::memmove));
  if (take(loader.getMainJITDylib().define(orc::absoluteSymbols(runtime))))
    return nullptr;
  for (::repro_runtime::Bytes object : objects)
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
  result->kernels.assign(entries, entries + numKernels);
  return result;
}
