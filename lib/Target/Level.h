//===- Level.h - CPU levels -------------------------------------*- C++ -*-===//
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

/// A set of machines that run the same object, and the sizes for which tiles
/// are chosen. Results have the same bits for all levels and sizes.
struct Level {
  std::string name;        ///< the name that objects contain
  std::string description; ///< the name, or the path of a file
  ::repro_runtime::Machine machine;
  std::string triple, cpu, features;
  bool hasFma = false;
  /// Whether the machine converts between f16 and f32.
  bool hasF16 = false;
  /// Whether the machine adds the products of four bytes to an i32 in one
  /// instruction.
  bool hasByteDots = false;
  /// The width in bits of the vector registers that code should use.
  int64_t vectorWidth = 0;
  int64_t vectorRegisters = 0;
  int64_t lineBytes = 0; ///< the line size of all caches
  int64_t l1Bytes = 0, l1Ways = 0, l2Bytes = 0;

  /// Returns the number of f32 lanes of a vector register.
  int64_t getLanes() const { return vectorWidth / 32; }
  /// Addresses at this distance map to the same set of the L1 cache.
  int64_t getL1WayBytes() const { return l1Bytes / l1Ways; }
};

llvm::ArrayRef<Level> getLevels();

/// Returns the level with that name, or null.
const Level *findLevel(llvm::StringRef name);

/// Returns the level with that name, or the one that the file at a path ending
/// in ".json" describes. On failure, sets `error` to one reason.
FailureOr<Level> getLevel(llvm::StringRef nameOrPath, std::string &error);

/// Returns "x86-64-v2, x86-64-v3, ..." for error messages.
std::string listLevels();

/// Returns the best level that this machine runs.
const Level &getHostLevel();

/// Returns whether this machine runs the code of the level.
bool runsOnHost(const Level &level);

} // namespace mlir::repro

#endif // REPRO_TARGET_LEVEL_H
