//===- ExpandFma.cpp - fma for targets without the instruction ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-expand-fma (Passes.td), run by lib/Pipelines/CPU.cpp: replaces
// each `math.fma` by arithmetic with the bits of a correctly rounded fused
// multiply-add (S1).
//
//===----------------------------------------------------------------------===//

#include "RuntimeCalls.h"

#include "Codegen/CPU/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEXPANDFMA
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

static constexpr StringRef routine = "repro_fma";

namespace {
struct ExpandFma : public repro::impl::ReproExpandFmaBase<ExpandFma> {
  void runOnOperation() override;
};
} // namespace

/// Returns `type` with its element type replaced by `element`.
static Type withElement(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.clone(element);
  return element;
}

static Value createConstant(ImplicitLocOpBuilder &b, Type type,
                            TypedAttr element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b,
                                     DenseElementsAttr::get(vector, element));
  return arith::ConstantOp::create(b, element);
}

/// Expands an f32 fma to f64 arithmetic. The product is exact in f64. The sum
/// is rounded to odd, to 53 bits. Since 53 > 2 * 24 + 2, rounding again to the
/// 24 bits of an f32 gives the correct result (S1).
static Value expandSingle(math::FmaOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Type wide = withElement(op.getType(), b.getF64Type());
  Type bits = withElement(op.getType(), b.getI64Type());
  auto extend = [&](Value value) -> Value {
    return arith::ExtFOp::create(b, wide, value);
  };
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(b, x, y);
  };
  auto sub = [&](Value x, Value y) -> Value {
    return arith::SubFOp::create(b, x, y);
  };
  Value p = arith::MulFOp::create(b, extend(op.getA()), extend(op.getB()));
  Value c = extend(op.getC());
  // Computes the f64 sum and its exact error. Nothing overflows. If an operand
  // is infinite or NaN, the error is a NaN and the sum is kept.
  Value sum = add(p, c);
  Value t = sub(sum, p);
  Value error = add(sub(p, sub(sum, t)), sub(c, t));
  Value zero = createConstant(b, wide, b.getF64FloatAttr(0));
  Value inexact =
      arith::CmpFOp::create(b, arith::CmpFPredicate::ONE, error, zero);
  // Rounds to odd: if the error is nonzero and the last bit of the sum is 0,
  // moves the sum by one unit toward the exact value. The sum's magnitude
  // increases if sum and error have the same sign; otherwise it decreases.
  Value sumBits = arith::BitcastOp::create(b, bits, sum);
  Value one = createConstant(b, bits, b.getI64IntegerAttr(1));
  Value minusOne = createConstant(b, bits, b.getI64IntegerAttr(-1));
  Value zeroBits = createConstant(b, bits, b.getI64IntegerAttr(0));
  Value even =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                            arith::AndIOp::create(b, sumBits, one), zeroBits);
  Value signs = arith::XOrIOp::create(b, sumBits,
                                      arith::BitcastOp::create(b, bits, error));
  Value away =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sge, signs, zeroBits);
  Value step = arith::SelectOp::create(b, away, one, minusOne);
  Value stepped = arith::AddIOp::create(b, sumBits, step);
  Value odd = arith::SelectOp::create(
      b, arith::AndIOp::create(b, inexact, even), stepped, sumBits);
  return arith::TruncFOp::create(b, op.getType(),
                                 arith::BitcastOp::create(b, wide, odd));
}

static Value expandDouble(math::FmaOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  return callRoutine(b, routine, op->getOperands());
}

void ExpandFma::runOnOperation() {
  SmallVector<math::FmaOp> work;
  getOperation().walk([&](math::FmaOp op) { work.push_back(op); });
  bool calls = false;
  for (math::FmaOp op : work) {
    Type element = getElementTypeOrSelf(op.getType());
    if (!element.isF32() && !element.isF64()) {
      op.emitOpError("(S1) expected f32 or f64, got ") << element;
      return signalPassFailure();
    }
    calls |= element.isF64();
    op.replaceAllUsesWith(element.isF32() ? expandSingle(op)
                                          : expandDouble(op));
    op.erase();
  }
  if (calls)
    declareRoutine(getOperation(), routine, 3);
}
