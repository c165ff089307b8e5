//===- DelayedScales.h - Scales of former steps -----------------*- C++ -*-===//
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

/// (Q6) How a scale follows from the amax of the steps so far.
struct DelayedScaling {
  StringAttr name;     ///< of the state: `amax_history.` and `scale.` before it
  int64_t history = 0; ///< how many steps; 0: the scale stays as it is
  int64_t margin = 0;
  bool isMostRecent = false; ///< the amax of the last step alone

  bool operator!=(const DelayedScaling &other) const {
    return std::tie(name, history, margin, isMostRecent) !=
           std::tie(other.name, other.history, other.margin,
                    other.isMostRecent);
  }
};

/// (Q6) A scale within a step.
struct DelayedScale {
  DelayedScaling scaling;
  Type element;         ///< of what is quantized by it
  Value history, scale; ///< before the step; no history of a scale that stays
  SmallVector<Value> amaxes; ///< of all that is quantized by it

  /// Its history and scale after the step. One that stays has none.
  std::pair<Value, Value> createNext(ImplicitLocOpBuilder &b) const;
};

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_DELAYEDSCALES_H
