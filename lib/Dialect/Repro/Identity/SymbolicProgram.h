//===- SymbolicProgram.h - Imported programs of many sizes ------*- C++ -*-===//
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

/// An extent that a program leaves open, from `least` to `most`.
struct Symbol {
  std::string name;
  int64_t least;
  int64_t most;
};

/// The greatest size of a symbol: sums and products of a few sizes fit.
inline constexpr int64_t kGreatestSize = (int64_t(1) << 31) - 1;

struct SymbolicSignature {
  SmallVector<Symbol> symbols;
  /// Of each argument, from the symbols to its extents; null where its type has
  /// them.
  SmallVector<AffineMap> extents;
};

/// Whether the function is an imported program of many sizes.
bool isSymbolic(func::FuncOp main);

/// Reads the attributes `repro.symbols`, `repro.bounds` and `repro.extents`.
/// Fails with an error where they are not as docs/architecture.md says.
FailureOr<SymbolicSignature> readSymbolicSignature(func::FuncOp main);

void eraseSymbolicSignature(func::FuncOp main);

/// (H4) BLAKE3 of the bytes that docs/identity.md defines.
FailureOr<ProgramHash> hashSymbolicProgram(ModuleOp module);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_SYMBOLICPROGRAM_H
