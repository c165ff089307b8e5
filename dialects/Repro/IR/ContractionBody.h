//===- ContractionBody.h - Recognition of contractions ----------*- C++ -*-===//
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

/// (K1) A fold body whose step is acc = fma(x, y, acc). All passes use
/// `getContraction` to recognize contractions.
struct ContractionBody {
  struct Factor {
    Value value;
    /// The inputs of the fold that the factor depends on, without duplicates.
    SmallVector<unsigned, 2> inputs;
    /// The dimensions of the fold that the maps of `inputs` use.
    llvm::SmallBitVector dims;
    /// Whether the factor is an element of an input, or extends such an element
    /// exactly. Imported contractions have such factors; fusion creates others.
    bool isElement = false;
    /// Whether the factor depends on the index of a loop, or on memory other
    /// than `inputs`.
    bool readsOthers = false;
    /// The number of operations of the body that compute the factor, not
    /// counting constants.
    unsigned numOperations = 0;
  };

  Factor x, y;
  Type type; ///< of the accumulator
  /// Whether the body has operations other than the step and exact extensions.
  bool hasOtherOperations = false;
  /// (F1) Whether the fold's order has several lanes or refolds totals, so that
  /// the products are not added one after the other.
  bool isInLanes = false;

  /// Whether `isElement` is true for both factors, as in imported contractions.
  bool isOfElements() const { return x.isElement && y.isElement; }
  /// Whether exactly one of the two factors depends on dimension `dim`.
  bool isOfOneFactor(unsigned dim) const { return x.dims[dim] != y.dims[dim]; }
  /// Whether the order of the sum may be #repro.fdpa (M4) or, unless there are
  /// too many reduction elements, #repro.exact (K4). A body with checks (E1) is
  /// excluded because both orders would drop the checks.
  bool isPlain() const {
    return isOfElements() && !hasOtherOperations && type.isF32();
  }
};

/// Describes the body of `fold`; std::nullopt if `fold` is not a contraction.
std::optional<ContractionBody> getContraction(FoldOp fold);

/// A tensor from which an input of a fold is computed by permutations and exact
/// extensions only.
struct ExtendedInput {
  Value tensor;
  AffineMap map; ///< from the dimensions of the fold to those of `tensor`
};

/// If `input` is an exact extension, possibly permuted, of a tensor with
/// narrower elements, returns this tensor; otherwise std::nullopt. `map` is the
/// indexing map of `input` in the fold.
std::optional<ExtendedInput> getExtendedInput(Value input, AffineMap map);

/// (M4) Returns the element types of the two factors before any exact
/// extension; std::nullopt if `fold` is not a contraction for which `isPlain`
/// is true.
std::optional<std::pair<Type, Type>> getMultipliedTypes(FoldOp fold);

/// Whether `op` is a contraction that adds its products one after the other, in
/// a single lane.
bool addsProductsInTurn(Operation *op);

} // namespace mlir::repro

#endif // REPRO_IR_CONTRACTIONBODY_H
