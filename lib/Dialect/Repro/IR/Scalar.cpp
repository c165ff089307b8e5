//===- Scalar.cpp - Formulas of scalars -----------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/Scalar.h"

using namespace mlir;
using namespace mlir::repro;

Scalar Scalar::constant(double number) const {
  TypedAttr attr = FloatAttr::get(getType(), number);
  return {*builder, arith::ConstantOp::create(*builder, attr)};
}

Scalar Scalar::convert(Type type) const {
  if (type == getType())
    return *this;
  if (type.getIntOrFloatBitWidth() > getType().getIntOrFloatBitWidth())
    return {*builder, arith::ExtFOp::create(*builder, type, value)};
  return {*builder, arith::TruncFOp::create(*builder, type, value)};
}

Scalar repro::compare(arith::CmpFPredicate predicate, Scalar a, Scalar b) {
  ImplicitLocOpBuilder &builder = a.getBuilder();
  return {builder, arith::CmpFOp::create(builder, predicate, a.get(), b.get())};
}

Scalar repro::select(Scalar condition, Scalar a, Scalar b) {
  ImplicitLocOpBuilder &builder = a.getBuilder();
  return {builder,
          arith::SelectOp::create(builder, condition.get(), a.get(), b.get())};
}

Value repro::roundToOdd(ImplicitLocOpBuilder &b, Value wide) {
  auto like = [&](Type element) -> Type {
    auto vector = dyn_cast<VectorType>(wide.getType());
    return vector ? Type(vector.clone(element)) : element;
  };
  Type i32 = like(b.getI32Type());
  auto create = [&](Type type, const APInt &value) -> Value {
    TypedAttr attr = b.getIntegerAttr(getElementTypeOrSelf(type), value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, attr);
    return arith::ConstantOp::create(b, attr);
  };
  auto constant = [&](int64_t value) {
    return create(i32, APInt(32, value, /*isSigned=*/true));
  };
  Value narrow = arith::TruncFOp::create(b, like(b.getF32Type()), wide);
  Value back = arith::ExtFOp::create(b, wide.getType(), narrow);
  auto absolute = [&](Value value) {
    Type i64 = like(b.getI64Type());
    Value bits = arith::BitcastOp::create(b, i64, value);
    return arith::AndIOp::create(b, bits,
                                 create(i64, APInt::getSignedMaxValue(64)));
  };
  Value exact = absolute(wide), rounded = absolute(back);
  Value bits = arith::BitcastOp::create(b, i32, narrow);
  Value isEven = arith::CmpIOp::create(
      b, arith::CmpIPredicate::eq, arith::AndIOp::create(b, bits, constant(1)),
      constant(0));
  // The comparison is false for a NaN, which stays unchanged.
  Value inexact =
      arith::CmpFOp::create(b, arith::CmpFPredicate::ONE, wide, back);
  Value wasDown =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ult, rounded, exact);
  Value step = arith::SelectOp::create(b, wasDown, constant(1), constant(-1));
  Value odd =
      arith::SelectOp::create(b, arith::AndIOp::create(b, inexact, isEven),
                              arith::AddIOp::create(b, bits, step), bits);
  return arith::BitcastOp::create(b, like(b.getF32Type()), odd);
}
