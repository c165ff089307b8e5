//===- Combine.cpp - Combine functions of scatter and scan ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/Combine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

Type repro::kernels::getCombineType(Type element) {
  auto type = dyn_cast<FloatType>(element);
  if (!type || type.getWidth() >= 32)
    return element;
  return Float32Type::get(element.getContext());
}

Value repro::kernels::createCombine(KernelBuilder &b, Combine combine,
                                    Value lhs, Value rhs) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(lhs.getType()));
  if (getElementTypeOrSelf(lhs.getType()).isInteger(1)) {
    if (combine == Combine::maximum)
      return arith::MaxUIOp::create(b, lhs, rhs);
    if (combine == Combine::minimum)
      return arith::MinUIOp::create(b, lhs, rhs);
  }
  switch (combine) {
  case Combine::add:
    return isFloat ? arith::AddFOp::create(b, lhs, rhs).getResult()
                   : arith::AddIOp::create(b, lhs, rhs).getResult();
  case Combine::mul:
    return isFloat ? arith::MulFOp::create(b, lhs, rhs).getResult()
                   : arith::MulIOp::create(b, lhs, rhs).getResult();
  case Combine::maximum:
    return isFloat ? b.createExtremum(true, lhs, rhs)
                   : arith::MaxSIOp::create(b, lhs, rhs).getResult();
  case Combine::minimum:
    return isFloat ? b.createExtremum(false, lhs, rhs)
                   : arith::MinSIOp::create(b, lhs, rhs).getResult();
  case Combine::replace:
    return rhs;
  }
  llvm_unreachable("unknown combination");
}

TypedAttr repro::kernels::getCombineStart(Combine combine, Type type) {
  Builder b(type.getContext());
  if (auto floatType = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = floatType.getFloatSemantics();
    APFloat value = APFloat::getZero(semantics);
    if (combine == Combine::mul)
      value = APFloat::getOne(semantics);
    else if (combine == Combine::maximum)
      value = APFloat::getInf(semantics, /*Negative=*/true);
    else if (combine == Combine::minimum)
      value = APFloat::getInf(semantics, /*Negative=*/false);
    return b.getFloatAttr(floatType, value);
  }
  unsigned width = type.getIntOrFloatBitWidth();
  APInt value = APInt::getZero(width);
  if (combine == Combine::mul)
    value = APInt(width, 1);
  else if (width == 1)
    value = APInt(1, combine == Combine::minimum);
  else if (combine == Combine::maximum)
    value = APInt::getSignedMinValue(width);
  else if (combine == Combine::minimum)
    value = APInt::getSignedMaxValue(width);
  return b.getIntegerAttr(type, value);
}
