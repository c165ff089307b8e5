//===- Level.cpp - The CPU levels that code is made for -------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Lowering/Level.h"

#include "mlir/Support/LLVM.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace mlir::repro;

static const Level levels[] = {
    {"x86-64-v2", ::repro_runtime::Machine::X86_64, "x86_64-unknown-linux-gnu",
     "x86-64-v2", "", 128, false, false},
    {"x86-64-v3", ::repro_runtime::Machine::X86_64, "x86_64-unknown-linux-gnu",
     "x86-64-v3", "", 256, true, true},
    {"x86-64-v4", ::repro_runtime::Machine::X86_64, "x86_64-unknown-linux-gnu",
     "x86-64-v4", "", 512, true, true},
    {"aarch64", ::repro_runtime::Machine::AArch64, "aarch64-unknown-linux-gnu",
     "generic", "+neon", 128, true, true},
};

ArrayRef<Level> mlir::repro::getLevels() { return levels; }

const Level *mlir::repro::findLevel(StringRef name) {
  for (const Level &level : levels)
    if (level.name == name)
      return &level;
  return nullptr;
}

std::string mlir::repro::listLevels() {
  return llvm::join(
      llvm::map_range(levels,
                      [](const Level &level) { return level.name.str(); }),
      ", ");
}

const Level &mlir::repro::getHostLevel() {
#if defined(__aarch64__)
  return *findLevel("aarch64");
#else
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto has = [&](std::initializer_list<StringRef> names) {
    return llvm::all_of(names,
                        [&](StringRef name) { return features.lookup(name); });
  };
  if (!has({"avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"}))
    return *findLevel("x86-64-v2");
  if (!has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}))
    return *findLevel("x86-64-v3");
  return *findLevel("x86-64-v4");
#endif
}
