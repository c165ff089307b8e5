//===- ElementEvaluator.h - Small tensors of constants ----------*- C++ -*-===//
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

/// Knows the elements of values that follow from constants alone: scalars, and
/// tensors of at most 1024 elements. They are computed by `evaluateScalar`, so
/// by docs/numerics.md; sums of floats, whose order is not known yet, are not.
class ElementEvaluator {
public:
  /// The elements of `value`; null where they are not known.
  const Elements *find(Value value) const {
    auto entry = known.find(value);
    return entry == known.end() ? nullptr : &entry->second;
  }

  /// The one integer that `value` is or holds; null where it is not known.
  std::optional<APInt> findInteger(Value value) const;

  /// Remembers the elements of a value.
  void set(Value value, Elements elements) {
    known[value] = std::move(elements);
  }

  /// The elements of each result of `op`, whose operands are looked up; empty
  /// where one is not known.
  SmallVector<Elements> compute(Operation *op);

  /// Whether more was computed than time and memory allow; nothing is then.
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
