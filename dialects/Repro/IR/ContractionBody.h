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

/// (K1) A fold body whose step is acc = fma(x, y, acc). All passes recognize
/// contractions by this description.
struct ContractionBody {
  struct Factor {
    Value value;
    /// The inputs of the fold that the factor depends on, without duplicates.
    SmallVector<unsigned, 2> inputs;
    /// The dimensions of the fold that the maps of `inputs` use.
    llvm::SmallBitVector dims;
    /// Whether the factor is an input's element or its exact extension.
    /// Imported contractions have such factors; fusion creates others.
    bool isElement = false;
    /// Whether the factor depends on a position or on memory besides `inputs`.
    bool readsOthers = false;
    /// The number of operations in the body that compute it, without constants.
    unsigned numOperations = 0;
  };

  Factor x, y;
  Type type; ///< of the accumulator
  /// Whether the body has operations besides the step and exact extensions.
  bool hasOtherOperations = false;
  /// (F1) Whether the fold's order has several lanes or refolds totals, so that
  /// the products are not added one after the other.
  bool isInLanes = false;

  /// Whether both factors are elements, as in imported contractions.
  bool isOfElements() const { return x.isElement && y.isElement; }
  /// Whether exactly one factor has the dimension.
  bool isOfOneFactor(unsigned dim) const { return x.dims[dim] != y.dims[dim]; }
  /// Whether the sum may be chosen as #repro.fdpa (M4) or, if the number of
  /// reduction elements permits, #repro.exact (K4). (E1) Either one would drop
  /// checks in the body.
  bool isPlain() const {
    return isOfElements() && !hasOtherOperations && type.isF32();
  }
};

/// Describes the body of a contraction; none for other bodies.
std::optional<ContractionBody> getContraction(FoldOp fold);

/// The tensor that an input of a fold reads through operations that only
/// permute and extend exactly.
struct ExtendedInput {
  Value tensor;
  AffineMap map; ///< from the fold's dimensions
};

/// The narrower elements of which `input` contains the extensions; none if it
/// has elements of its own.
std::optional<ExtendedInput> getExtendedInput(Value input, AffineMap map);

/// (M4) The element types that a contraction multiplies, looking through
/// extensions before it; none if its sum cannot be chosen.
std::optional<std::pair<Type, Type>> getMultipliedTypes(FoldOp fold);

/// Whether `op` is a contraction that adds its products one after the other,
/// not in lanes.
bool addsProductsInTurn(Operation *op);

} // namespace mlir::repro

#endif // REPRO_IR_CONTRACTIONBODY_H
