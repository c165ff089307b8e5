//===- Architecture.h - The devices that code is made for -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_LOWERING_ARCHITECTURE_H
#define REPRO_CODEGEN_GPU_LOWERING_ARCHITECTURE_H

#include "mlir/Support/LLVM.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::repro {

/// An architecture of NVIDIA devices; all give the same bits.
struct Architecture {
  StringRef name; ///< such as sm_90
  unsigned number;

  /// Whether an instruction of two fmas has twice the rate of one.
  bool hasPackedFma() const { return number == 100; }
  /// Whether a warp multiplies matrices of bytes, of 16 x 32 and 32 x 8.
  bool hasByteMatrices() const { return number >= 80; }
};

ArrayRef<Architecture> getArchitectures();

/// The architecture of that name, or null.
const Architecture *findArchitecture(StringRef name);

/// Their names, separated by ", ".
std::string listArchitectures();

} // namespace mlir::repro

#endif // REPRO_CODEGEN_GPU_LOWERING_ARCHITECTURE_H
