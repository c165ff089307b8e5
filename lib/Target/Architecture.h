//===- Architecture.h - NVIDIA architectures --------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_ARCHITECTURE_H
#define REPRO_TARGET_ARCHITECTURE_H

#include "Target/MatrixUnit.h"

#include "mlir/Support/LLVM.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::repro {

/// An architecture of NVIDIA devices, and the sizes for which tiles are chosen.
/// Results have the same bits for all architectures and sizes.
struct Architecture {
  std::string name;        ///< such as sm_90
  std::string description; ///< the argument of `getArchitecture`
  /// Whether a packed instruction computes two fmas at twice the rate of one.
  bool hasPackedFma = false;
  /// Whether a warp multiplies 16 x 32 by 32 x 8 matrices of bytes.
  bool hasByteMatrices = false;
  int64_t multiprocessors = 0;
  /// (M4) The class whose instructions compute contractions, or null.
  const ::repro_target::MatrixUnit *matrixUnit = nullptr;
};

/// The suffix of an architecture's name which states that its devices are known
/// to compute the sums of their class (M3), so that contractions may use tensor
/// cores.
inline constexpr StringLiteral tensorCoresSuffix = "+tensor-cores";

ArrayRef<Architecture> getArchitectures();

/// Returns the architecture with that name, or the one that the file at a path
/// ending in ".json" describes; tensorCoresSuffix may follow. On failure, sets
/// `error` to one reason.
FailureOr<Architecture> getArchitecture(StringRef description,
                                        std::string &error);

/// Returns the names of the architectures, separated by ", ".
std::string listArchitectures();

} // namespace mlir::repro

#endif // REPRO_TARGET_ARCHITECTURE_H
