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

/// A set of machines that run the same object code, and the sizes that
/// determine the choice of tiles. All levels and sizes give results with the
/// same bits.
struct Level {
  std::string name;        ///< the name that objects contain
  std::string description; ///< the name, or the path of a file
  ::repro_runtime::Machine machine;
  std::string triple, cpu, features;
  bool hasFma = false;
  /// Whether the machine has instructions that convert between f16 and f32.
  bool hasF16 = false;
  /// Whether one instruction adds the products of four pairs of bytes to an
  /// i32.
  bool hasByteDots = false;
  /// Whether the machine is a microcontroller: without an operating system, and
  /// without instructions for f64 and for the division of i64.
  bool isMicrocontroller = false;
  /// The width in bits of the vector registers that generated code uses.
  int64_t vectorWidth = 0;
  int64_t vectorRegisters = 0;
  int64_t lineBytes = 0; ///< the line size of all caches
  int64_t l1Bytes = 0, l1Ways = 0, l2Bytes = 0;

  /// Returns the number of f32 lanes of a vector register.
  int64_t getLanes() const { return vectorWidth / 32; }
  /// Returns the distance, in bytes, between neighbouring addresses that map to
  /// the same set of the L1 cache.
  int64_t getL1WayBytes() const { return l1Bytes / l1Ways; }
};

/// Returns the levels of which artifacts can be made, worst first.
llvm::ArrayRef<Level> getLevels();

/// Returns the level of `getLevels()` with that name, or null.
const Level *findLevel(llvm::StringRef name);

/// Returns the level with that name, which may be that of a microcontroller, or
/// the one described by the file if the name is a path that ends in ".json". On
/// failure, sets `error` to one reason.
FailureOr<Level> getLevel(llvm::StringRef nameOrPath, std::string &error);

/// Returns "x86-64-v2, x86-64-v3, ..." for error messages.
std::string listLevels();

/// Returns the best level that this machine runs.
const Level &getHostLevel();

/// Whether this machine can run code of the level.
bool runsOnHost(const Level &level);

} // namespace mlir::repro

#endif // REPRO_TARGET_LEVEL_H
