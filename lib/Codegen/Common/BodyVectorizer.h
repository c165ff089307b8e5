//===- BodyVectorizer.h - Vectorize scalar bodies ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_BODYVECTORIZER_H
#define REPRO_CODEGEN_COMMON_BODYVECTORIZER_H

#include "Codegen/Common/KernelBuilder.h"

namespace mlir::repro::kernels {

/// A value of the body for all lanes of a vector.
struct LaneValue {
  enum Kind {
    Uniform, ///< `value` is a scalar, equal in all lanes
    Iota,    ///< `value` is a scalar, lane l has `value` + l
    Vector,  ///< `value` is a vector
  };
  Value value;
  Kind kind = Uniform;
};

/// Emits the body of a structured operation for `lanes` iterations at once, or
/// for one if `lanes` is 0. Expands what numerics.md defines and `arith` leaves
/// open: (S2), (S3), (I1), (E1). Storage types (V1) may be kept in f32, which
/// is exact.
class BodyVectorizer {
public:
  BodyVectorizer(KernelBuilder &b, int64_t lanes, LaneMask mask = {})
      : b(b), lanes(lanes), mask(mask) {}

  /// Whether every operation of `body` can be emitted for several lanes.
  static bool canVectorize(Block &body);

  /// Returns the index of each iteration along dimension `dim`.
  std::function<LaneValue(int64_t dim)> index;

  void map(Value from, LaneValue to) { values[from] = to; }
  void map(Value from, Value to) {
    values[from] = {to, isa<VectorType>(to.getType()) ? LaneValue::Vector
                                                      : LaneValue::Uniform};
  }

  /// Returns `value`, which the body computes or uses, for all lanes. Emits the
  /// operation that computes `value` if it has not been emitted yet.
  LaneValue get(Value value);
  /// Returns `value` for all lanes: a vector, or a scalar if `lanes` is 0.
  Value getLanes(Value value) { return spread(get(value)); }

  /// Returns `value` for all lanes, converted to `element` if that is a float
  /// type.
  Value getLanes(Value value, Type element);

  /// Emits all operations, including those with side effects, except the
  /// terminator and prefetches. Returns the operands of the terminator.
  SmallVector<Value> inlineBody(Block &body);

private:
  Value spread(LaneValue value);
  LaneValue compute(Operation *op);
  LaneValue computeIndex(Operation *op, int64_t dim);
  LaneValue computeLoad(Operation *op);
  void computeAssert(Operation *op);
  Value computeElementwise(Operation *op, ValueRange operands, int64_t lanes);
  Value computeConversion(Operation *op, Value value, Type type);
  Value computeDivision(Operation *op, Value lhs, Value rhs);
  Value computeShift(Operation *op, Value lhs, Value rhs);
  Value splat(TypedAttr value, Type like);

  KernelBuilder &b;
  int64_t lanes;
  LaneMask mask;
  Block *body = nullptr;
  llvm::DenseMap<Value, LaneValue> values;
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_BODYVECTORIZER_H
