//===- SymbolicProgram.h - Programs with symbolic sizes ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_SYMBOLICPROGRAM_H
#define REPRO_IDENTITY_SYMBOLICPROGRAM_H

#include "Dialect/Repro/Identity/ProgramIdentity.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::repro {

/// A dynamic extent of a program, which is at least `least` and at most `most`.
struct Symbol {
  std::string name;
  int64_t least;
  int64_t most;
};

/// The maximum value of a symbol. Sums and products of a few such values fit
/// into 64 bits.
inline constexpr int64_t kGreatestSize = (int64_t(1) << 31) - 1;

/// The symbols of a program and the extents of its arguments.
struct SymbolicSignature {
  SmallVector<Symbol> symbols;
  /// For each argument, the map from the symbols to the extents of the
  /// argument; null if the argument has a static type.
  SmallVector<AffineMap> extents;
};

/// Whether the function is an imported program with symbolic sizes.
bool isSymbolic(func::FuncOp main);

/// Reads the attributes `repro.symbols`, `repro.bounds` and `repro.extents`.
/// Fails with an error if the attributes violate
/// docs/contributors/architecture.md.
FailureOr<SymbolicSignature> readSymbolicSignature(func::FuncOp main);

/// Removes the attributes that `readSymbolicSignature` reads.
void eraseSymbolicSignature(func::FuncOp main);

/// (H4) Returns the BLAKE3 hash of the bytes that docs/verification/identity.md
/// defines for symbolic programs.
FailureOr<ProgramHash> hashSymbolicProgram(ModuleOp module);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_SYMBOLICPROGRAM_H
