//===- Level.h - The CPU levels that code is made for -----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_LEVEL_H
#define REPRO_TARGET_LEVEL_H

#include "Runtime/Artifact.h"

#include "mlir/Support/LLVM.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::repro {

/// A set of machines that run the same object, and the sizes that tiles are
/// chosen for. All levels give the same bits, with any sizes.
struct Level {
  std::string name;        ///< as objects carry it
  std::string description; ///< that name, or the path of a file
  ::repro_runtime::Machine machine;
  std::string triple, cpu, features;
  bool hasFma = false;
  /// Whether the machine converts between f16 and f32.
  bool hasF16 = false;
  /// Whether an instruction adds the products of four bytes to an i32.
  bool hasByteDots = false;
  /// Bits of a vector register that code should use.
  int64_t vectorWidth = 0;
  int64_t vectorRegisters = 0;
  int64_t lineBytes = 0; ///< of all caches
  int64_t l1Bytes = 0, l1Ways = 0, l2Bytes = 0;

  /// f32 lanes of a vector register.
  int64_t getLanes() const { return vectorWidth / 32; }
  /// Addresses this far apart fall into one set of the L1 cache.
  int64_t getL1WayBytes() const { return l1Bytes / l1Ways; }
};

llvm::ArrayRef<Level> getLevels();

/// The level of that name or null.
const Level *findLevel(llvm::StringRef name);

/// The level of that name, or that of the file at a path that ends with
/// ".json"; one reason on failure.
FailureOr<Level> getLevel(llvm::StringRef nameOrPath, std::string &error);

/// "x86-64-v2, x86-64-v3, ..." for error messages.
std::string listLevels();

/// The best level that this machine runs.
const Level &getHostLevel();

/// Whether this machine runs the level.
bool runsOnHost(const Level &level);

} // namespace mlir::repro

#endif // REPRO_TARGET_LEVEL_H
