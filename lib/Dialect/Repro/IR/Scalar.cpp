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
