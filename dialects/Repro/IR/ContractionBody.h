//===- ContractionBody.h - What a contraction is ----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_CONTRACTIONBODY_H
#define REPRO_IR_CONTRACTIONBODY_H

#include "dialects/Repro/IR/Repro.h"

#include "llvm/ADT/SmallBitVector.h"

namespace mlir::repro {

/// (K1) A body whose step is acc = fma(x, y, acc). This description alone says
/// what a contraction is.
struct ContractionBody {
  struct Factor {
    Value value;
    /// The fold's inputs that it is computed from, each once.
    SmallVector<unsigned, 2> inputs;
    /// The dimensions of the fold that the maps of `inputs` use.
    llvm::SmallBitVector dims;
    /// Whether it is an input's element or its exact extension: so are those of
    /// the import, and fusion computes others.
    bool isElement = false;
    /// Whether it depends on a position or on memory besides `inputs`.
    bool readsOthers = false;
    /// Operations in the body that compute it, without constants.
    unsigned numOperations = 0;
  };

  Factor x, y;
  Type type; ///< of the accumulator
  /// Whether the body has operations besides the step and exact extensions.
  bool hasOtherOperations = false;
  /// (F1) Whether the fold's order has several lanes or refolds totals, so that
  /// the products are not added up one after the other.
  bool isInLanes = false;

  /// Whether the factors are those of the import.
  bool isOfElements() const { return x.isElement && y.isElement; }
  /// Whether just one factor has the dimension.
  bool isOfOneFactor(unsigned dim) const { return x.dims[dim] != y.dims[dim]; }
  /// Whether the sum may be chosen: #repro.fdpa (M4) and, but for the number of
  /// reduction elements, #repro.exact (K4). (E1) Checks in the body would be
  /// lost.
  bool isPlain() const {
    return isOfElements() && !hasOtherOperations && type.isF32();
  }
};

/// The body of a contraction, none for another body.
std::optional<ContractionBody> getContraction(FoldOp fold);

/// What an input of a fold reads in the end, where operations in between only
/// permute and extend exactly.
struct ExtendedInput {
  Value tensor;
  AffineMap map; ///< from the fold's dimensions
};

/// The narrower elements whose extensions `input` holds, none where it holds
/// its own.
std::optional<ExtendedInput> getExtendedInput(Value input, AffineMap map);

/// (M4) The types of the elements that a contraction multiplies, extensions
/// before it being read through; none where its sum cannot be chosen.
std::optional<std::pair<Type, Type>> getMultipliedTypes(FoldOp fold);

/// Whether `op` is a contraction whose products are added up one after the
/// other, not in lanes.
bool addsProductsInTurn(Operation *op);

} // namespace mlir::repro

#endif // REPRO_IR_CONTRACTIONBODY_H
