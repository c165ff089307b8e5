//===- ContractionRoles.h - Roles of contractions in a step -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TRANSFORMS_CONTRACTIONROLES_H
#define REPRO_TRANSFORMS_CONTRACTIONROLES_H

#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::repro {

/// Returns, in program order, the contractions whose precision can be chosen.
/// These are the contractions for which the order of the sum may be chosen.
SmallVector<FoldOp> getContractions(func::FuncOp function);

/// The role of a contraction in a training step.
enum class Role { fprop, dgrad, wgrad, product, other };

/// The role of a factor of a contraction.
enum class Factor { activation, weight, gradient, none };

/// The role of a contraction, the roles of its factors, and its layer.
struct ContractionRole {
  Role role = Role::other;
  /// The roles of the body's factors x and y.
  std::array<Factor, 2> factors = {Factor::none, Factor::none};
  /// The argument that is the layer's weight; -1 if there is none.
  int64_t weight = -1;
  /// The number of the layer's contraction in the forward pass, -1 if there is
  /// none. For a wgrad, that contraction is the one that reads the same
  /// activation; for a recomputed contraction, it is the original.
  int64_t forward = -1;
};

/// The positions of the state and the loss in a step's arguments and results.
struct StepShape {
  /// The number of state arguments, which come first.
  int64_t numState = 0;
  /// Whether the new state comes first in the results.
  bool hasNewState = true;
  /// The result that is the loss; -1 selects the result named `lossName` or, if
  /// there is none, the only result that is a float of shape [] and not state.
  int64_t loss = -1;
  StringRef lossName = "loss";
};

/// Returns the role of each contraction that `getContractions` returns.
///
/// - fprop: the loss depends on it, and one factor is the weight, that is,
///   state that was only moved, converted or rounded. Without a loss, it is
///   enough that some result depends on it. A recomputed contraction (V5) has
///   the role of the original.
/// - dgrad: any other contraction of a weight and a gradient.
/// - wgrad: a contraction of an activation of fprop and the gradient of the
///   layer's dgrad; or a contraction with only one of these factors, if its
///   result has the size of the weight and reaches the weight's new value.
/// - product: any other contraction of two matrices that the loss depends on. A
///   factor is a computed weight, such as a normalized one, if it depends on
///   state alone and the other factor depends on an input.
///
/// Fails with an error if weights change but no loss is found, and for a
/// program that already has block contractions (Q4).
FailureOr<SmallVector<ContractionRole>> getRoles(func::FuncOp function,
                                                 const StepShape &shape);

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_CONTRACTIONROLES_H
