//===- ElementEvaluator.h - Small constant tensors --------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TRANSFORMS_ELEMENTEVALUATOR_H
#define REPRO_TRANSFORMS_ELEMENTEVALUATOR_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::linalg {
class GenericOp;
} // namespace mlir::linalg

namespace mlir::repro {

/// The elements of a scalar or a tensor, in row-major order.
using Elements = SmallVector<Attribute>;

/// Evaluates scalars, and tensors of at most 1024 elements, that depend on
/// constants only, with `evaluateScalar`. Sums of floats stay unknown, because
/// their order has not been chosen.
class ElementEvaluator {
public:
  /// Returns the elements of `value`; null if the elements are not known.
  const Elements *find(Value value) const {
    auto entry = known.find(value);
    return entry == known.end() ? nullptr : &entry->second;
  }

  /// Returns the integer that `value` is, or contains as its only element;
  /// std::nullopt if the integer is not known.
  std::optional<APInt> findInteger(Value value) const;

  /// Records the elements of a value.
  void set(Value value, Elements elements) {
    known[value] = std::move(elements);
  }

  /// Returns the elements of each result of `op`, computed from the elements of
  /// the operands; an empty list if the results are not known or the limit on
  /// the work has been reached.
  SmallVector<Elements> compute(Operation *op);

  /// Whether the limit on the work has been reached. After that, nothing is
  /// computed.
  bool isExhausted() const { return work > mostWork; }

private:
  static constexpr int64_t mostElements = 1024;
  static constexpr int64_t mostWork = 4'000'000;

  SmallVector<Elements> computeGeneric(linalg::GenericOp op);
  std::optional<Elements> computeOne(Operation *op);
  std::optional<int64_t> findPosition(ArrayRef<int64_t> shape,
                                      ValueRange indices) const;

  DenseMap<Value, Elements> known;
  int64_t work = 0;
};

} // namespace mlir::repro

#endif // REPRO_TRANSFORMS_ELEMENTEVALUATOR_H
