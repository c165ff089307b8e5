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

/// An architecture of NVIDIA devices, and the sizes that determine the choice
/// of tiles. All architectures and sizes give results with the same bits.
struct Architecture {
  std::string name;        ///< such as sm_90
  std::string description; ///< the argument of `getArchitecture`
  /// Whether the device has a packed instruction that computes two f32 fmas,
  /// which doubles the rate of fmas.
  bool hasPackedFma = false;
  /// Whether the device has an instruction with which a warp multiplies 16 x 32
  /// by 32 x 8 matrices of bytes.
  bool hasByteMatrices = false;
  int64_t multiprocessors = 0;
  /// (M4) The class of matrix units whose instructions compute contractions;
  /// null if contractions do not use matrix units.
  const ::repro_target::MatrixUnit *matrixUnit = nullptr;
};

/// The suffix of an architecture's name that asserts that its devices compute
/// the sums of their class (M3). Contractions may use tensor cores only if the
/// name has this suffix.
inline constexpr StringLiteral tensorCoresSuffix = "+tensor-cores";

ArrayRef<Architecture> getArchitectures();

/// Returns the architecture with that name, or the one described by the file if
/// the name is a path that ends in ".json". tensorCoresSuffix may follow. On
/// failure, sets `error` to one reason.
FailureOr<Architecture> getArchitecture(StringRef description,
                                        std::string &error);

/// Returns the names of the architectures, separated by ", ".
std::string listArchitectures();

} // namespace mlir::repro

#endif // REPRO_TARGET_ARCHITECTURE_H
