//===- Scalar.h - Formulas of scalars ---------------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_SCALAR_H
#define REPRO_IR_SCALAR_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {

/// A value with which formulas are written; each operator creates an operation
/// where the builder stands. An empty scalar is no value.
class Scalar {
public:
  Scalar() = default;
  Scalar(ImplicitLocOpBuilder &builder, Value value)
      : builder(&builder), value(value) {}

  explicit operator bool() const { return static_cast<bool>(value); }
  Value get() const { return value; }
  Type getType() const { return value.getType(); }
  ImplicitLocOpBuilder &getBuilder() const { return *builder; }
  /// A constant of the type of this one, rounded to it.
  Scalar constant(double number) const;
  /// In a float type, rounded where that is narrower.
  Scalar convert(Type type) const;

private:
  ImplicitLocOpBuilder *builder = nullptr;
  Value value;
};

/// The result of an operation of one result, of the type of its operands.
template <typename Op, typename... Rest>
Scalar apply(Scalar first, Rest... rest) {
  ImplicitLocOpBuilder &builder = first.getBuilder();
  return {builder, Op::create(builder, first.get(), rest.get()...)};
}

inline Scalar operator+(Scalar a, Scalar b) {
  return apply<arith::AddFOp>(a, b);
}
inline Scalar operator-(Scalar a, Scalar b) {
  return apply<arith::SubFOp>(a, b);
}
inline Scalar operator*(Scalar a, Scalar b) {
  return apply<arith::MulFOp>(a, b);
}
inline Scalar operator/(Scalar a, Scalar b) {
  return apply<arith::DivFOp>(a, b);
}
inline Scalar operator-(Scalar a) { return apply<arith::NegFOp>(a); }
inline Scalar operator+(Scalar a, double b) { return a + a.constant(b); }
inline Scalar operator-(Scalar a, double b) { return a - a.constant(b); }
inline Scalar operator-(double a, Scalar b) { return b.constant(a) - b; }
inline Scalar operator*(Scalar a, double b) { return a * a.constant(b); }
inline Scalar sqrt(Scalar a) { return apply<math::SqrtOp>(a); }

Scalar compare(arith::CmpFPredicate predicate, Scalar a, Scalar b);
Scalar select(Scalar condition, Scalar a, Scalar b);

/// Rounds an f64, or a vector of them, to an f32 whose last bit is odd unless
/// it is exact: rounding that once more to fewer bits gives what rounding the
/// f64 once would give.
Value roundToOdd(ImplicitLocOpBuilder &b, Value wide);

/// The gradient g of a power as that of its base: 0 for the exponent 0.
Scalar derivePowerByBase(Scalar g, Scalar base, Scalar exponent);
/// As that of its exponent: 0 for the base 0 and exponents from 0 on.
Scalar derivePowerByExponent(Scalar g, Scalar base, Scalar exponent,
                             Scalar power);

} // namespace mlir::repro

#endif // REPRO_IR_SCALAR_H
