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

/// A scalar value of the IR, for writing formulas in C++. Each operator creates
/// an operation at the builder's insertion point. A default-constructed scalar
/// contains no value.
class Scalar {
public:
  Scalar() = default;
  Scalar(ImplicitLocOpBuilder &builder, Value value)
      : builder(&builder), value(value) {}

  explicit operator bool() const { return static_cast<bool>(value); }
  Value get() const { return value; }
  Type getType() const { return value.getType(); }
  ImplicitLocOpBuilder &getBuilder() const { return *builder; }
  /// Returns the constant `number`, rounded to this scalar's type.
  Scalar constant(double number) const;
  /// Converts this scalar to a float type, with rounding if that type is
  /// narrower.
  Scalar convert(Type type) const;

private:
  ImplicitLocOpBuilder *builder = nullptr;
  Value value;
};

/// Creates an operation with one result, whose type is that of the operands.
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

/// Compares two scalars; the result is an i1.
Scalar compare(arith::CmpFPredicate predicate, Scalar a, Scalar b);
/// Selects `a` if the condition is true, else `b`.
Scalar select(Scalar condition, Scalar a, Scalar b);

/// Rounds an f64, or each element of a vector of f64, to an f32 whose last bit
/// is odd unless the conversion is exact. Rounding this f32 to fewer bits gives
/// the same result as rounding the f64.
Value roundToOdd(ImplicitLocOpBuilder &b, Value wide);

/// Returns the gradient of a power's base, given the power's gradient g; 0 if
/// the exponent is 0.
Scalar derivePowerByBase(Scalar g, Scalar base, Scalar exponent);
/// Returns the gradient of a power's exponent, given the power's gradient g; 0
/// if the base is 0 and the exponent is at least 0.
Scalar derivePowerByExponent(Scalar g, Scalar base, Scalar exponent,
                             Scalar power);

} // namespace mlir::repro

#endif // REPRO_IR_SCALAR_H
