//===- Level.h - The CPU levels that code is made for -----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_LEVEL_H
#define REPRO_CODEGEN_CPU_LEVEL_H

#include "Runtime/Artifact.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::repro {

/// A set of machines that run the same object. All levels give the same bits.
struct Level {
  llvm::StringRef name;
  ::repro_runtime::Machine machine;
  llvm::StringRef triple;
  llvm::StringRef cpu;
  llvm::StringRef features;
  /// Bits of a vector register that code should use.
  int64_t vectorWidth;
  bool hasFma;
  /// Whether the machine converts between f16 and f32.
  bool hasF16;
};

llvm::ArrayRef<Level> getLevels();

/// The level of that name or null.
const Level *findLevel(llvm::StringRef name);

/// "x86-64-v2, x86-64-v3, ..." for error messages.
std::string listLevels();

/// The best level that this machine runs.
const Level &getHostLevel();

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_LEVEL_H
