//===- DelayedScales.h - Scales from the history of steps -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TRANSFORMS_DELAYEDSCALES_H
#define REPRO_TRANSFORMS_DELAYEDSCALES_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <tuple>

namespace mlir::repro {

/// (Q6) How a scale depends on the amax of earlier steps.
struct DelayedScaling {
  StringAttr name;     ///< of the states `amax_history.NAME` and `scale.NAME`
  int64_t history = 0; ///< number of steps; 0: the scale is constant
  int64_t margin = 0;
  bool isMostRecent = false; ///< whether only the amax of the last step counts

  bool operator!=(const DelayedScaling &other) const {
    return std::tie(name, history, margin, isMostRecent) !=
           std::tie(other.name, other.history, other.margin,
                    other.isMostRecent);
  }
};

/// (Q6) A delayed scale during a step.
struct DelayedScale {
  DelayedScaling scaling;
  Type element;         ///< element type of the tensors that it quantizes
  Value history, scale; ///< before the step; a constant scale has no history
  SmallVector<Value> amaxes; ///< of all tensors that it quantizes

  /// Returns the history and the scale after the step. The scale must not be
  /// constant.
  std::pair<Value, Value> createNext(ImplicitLocOpBuilder &b) const;
};

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_DELAYEDSCALES_H
