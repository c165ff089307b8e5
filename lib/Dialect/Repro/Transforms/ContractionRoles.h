//===- ContractionRoles.h - What contractions are for -----------*- C++ -*-===//
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

/// The contractions of a function that a precision can be chosen for, in
/// program order: those whose sum may be chosen.
SmallVector<FoldOp> getContractions(func::FuncOp function);

/// What a contraction of a step is for.
enum class Role { fprop, dgrad, wgrad, product, other };

/// What a factor of a contraction is.
enum class Factor { activation, weight, gradient, none };

struct ContractionRole {
  Role role = Role::other;
  /// The factors x and y of the body.
  std::array<Factor, 2> factors = {Factor::none, Factor::none};
  /// The argument that is the layer's weight, -1 where there is none.
  int64_t weight = -1;
  /// The number of the layer's contraction in the forward pass, of a wgrad the
  /// one with its activation; of one that is computed again, that of the first;
  /// -1 where there is none.
  int64_t forward = -1;
};

/// Where the state and the loss of a step are.
struct StepShape {
  /// How many of the first arguments are state.
  int64_t numState = 0;
  /// Whether the first results are the new state.
  bool hasNewState = true;
  /// The result that is the loss; -1 for the one with the name `lossName`, or
  /// the only one that is a float of shape [] and no state.
  int64_t loss = -1;
  StringRef lossName = "loss";
};

/// The role of each of `getContractions`.
///
/// - fprop: the loss depends on it, and one factor is the weight: state, moved,
///   converted and rounded alone. Without a loss all results count. Where that
///   is computed again (V5), it is the same.
/// - dgrad: other ones of a weight and a gradient.
/// - wgrad: of an activation of fprop and the gradient of the layer's dgrad; or
///   with one of both, where the result has the size of the weight and reaches
///   its new value.
/// - product: other ones that the loss depends on, of two matrices. A factor is
///   a weight that was computed, such as a normalized one, where it depends on
///   state alone and the other factor on an input.
///
/// An error where weights change and no loss is found, and in a program that
/// has contractions in blocks (Q4) already.
FailureOr<SmallVector<ContractionRole>> getRoles(func::FuncOp function,
                                                 const StepShape &shape);

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_CONTRACTIONROLES_H
