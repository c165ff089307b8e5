//===- Architecture.h - The devices that code is made for -------*- C++ -*-===//
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

/// An architecture of NVIDIA devices, and the sizes that tiles are chosen for;
/// all give the same bits, with any sizes.
struct Architecture {
  std::string name;        ///< such as sm_90
  std::string description; ///< what `getArchitecture` was given
  /// Whether an instruction of two fmas has twice the rate of one.
  bool hasPackedFma = false;
  /// Whether a warp multiplies matrices of bytes, of 16 x 32 and 32 x 8.
  bool hasByteMatrices = false;
  int64_t multiprocessors = 0;
  /// (M4) The class whose instructions compute contractions; null for none.
  const ::repro_target::MatrixUnit *matrixUnit = nullptr;
};

/// Behind the name of an architecture: its devices are known to have the sums
/// of their class (M3), so that instructions compute them.
inline constexpr StringLiteral tensorCoresSuffix = "+tensor-cores";

ArrayRef<Architecture> getArchitectures();

/// The architecture of that name, or that of the file at a path that ends with
/// ".json", perhaps with tensorCoresSuffix; one reason on failure.
FailureOr<Architecture> getArchitecture(StringRef description,
                                        std::string &error);

/// Their names, separated by ", ".
std::string listArchitectures();

} // namespace mlir::repro

#endif // REPRO_TARGET_ARCHITECTURE_H
