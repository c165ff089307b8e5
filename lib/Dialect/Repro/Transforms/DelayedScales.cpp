//===- DelayedScales.cpp - Scales from the history of steps ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/DelayedScales.h"
#include "dialects/Repro/IR/TensorBuilders.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace mlir::repro;

/// (Q1) Returns the largest value of the element type.
static double getLargest(Type element) {
  if (auto type = dyn_cast<FloatType>(element))
    return APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  return 127.0 / 64;
}

/// Returns the amax history after this step: the step's amax, then the earlier
/// ones.
static Value createHistory(ImplicitLocOpBuilder &b, Value amax, Value history) {
  Type f32 = b.getF32Type();
  AffineMap scalar = AffineMap::get(1, 0, {}, b.getContext());
  Value first = mapElements(
      b, {1}, f32, amax, {scalar},
      [](ImplicitLocOpBuilder &, ValueRange x) { return x.front(); });
  int64_t length = cast<RankedTensorType>(history.getType()).getDimSize(0);
  if (length == 1)
    return first;
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  Value former = tensor::ExtractSliceOp::create(
      b, RankedTensorType::get({length - 1}, f32), history, {zero},
      {b.getIndexAttr(length - 1)}, {one});
  return tensor::ConcatOp::create(b, /*dim=*/0, ValueRange{first, former});
}

/// (Q6) Returns (max / amax) / 2^margin, or the old scale if amax is zero,
/// infinite or NaN.
static Value createScale(ImplicitLocOpBuilder &b, Value amax, Value scale,
                         const DelayedScaling &scaling, Type element) {
  auto number = [&](const APFloat &value) -> Value {
    return arith::ConstantOp::create(b, b.getFloatAttr(b.getF32Type(), value));
  };
  Value largest = number(APFloat(float(getLargest(element))));
  Value power = number(APFloat(std::ldexp(1.0f, int(scaling.margin))));
  Value zero = number(APFloat(0.0f));
  Value infinity = number(APFloat::getInf(APFloat::IEEEsingle()));
  Value greatest = number(APFloat::getLargest(APFloat::IEEEsingle()));
  return mapElements(
      b, {}, b.getF32Type(), {amax, scale}, {},
      [&](ImplicitLocOpBuilder &b, ValueRange x) -> Value {
        using arith::CmpFPredicate;
        Value quotient = arith::DivFOp::create(
            b, arith::DivFOp::create(b, largest, x[0]), power);
        Value isInfinite =
            arith::CmpFOp::create(b, CmpFPredicate::OEQ, quotient, infinity);
        Value next = arith::SelectOp::create(b, isInfinite, greatest, quotient);
        Value isAbove =
            arith::CmpFOp::create(b, CmpFPredicate::OGT, x[0], zero);
        Value isFinite =
            arith::CmpFOp::create(b, CmpFPredicate::OLT, x[0], infinity);
        Value isNumber = arith::AndIOp::create(b, isAbove, isFinite);
        return arith::SelectOp::create(b, isNumber, next, x[1]);
      });
}

std::pair<Value, Value>
DelayedScale::createNext(ImplicitLocOpBuilder &b) const {
  Value amax = amaxes.front();
  for (Value other : ArrayRef(amaxes).drop_front())
    amax = mapElements(b, {}, b.getF32Type(), {amax, other}, {},
                       [](ImplicitLocOpBuilder &b, ValueRange x) -> Value {
                         return arith::MaximumFOp::create(b, x[0], x[1]);
                       });
  Value next = createHistory(b, amax, history);
  Value seen =
      scaling.isMostRecent
          ? amax
          : createAmax(b, next, {}, AffineMap::get(1, 0, b.getContext()));
  return {next, createScale(b, seen, scale, scaling, element)};
}
