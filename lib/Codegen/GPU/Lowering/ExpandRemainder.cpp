//===- ExpandRemainder.cpp - Remainders of floats on integers -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-expand-remainder (Passes.td), run by lib/Pipelines/GPU.cpp:
// replaces each arith.remf by an exact loop on integers (S4).
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEXPANDREMAINDER
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct ExpandRemainder
    : public repro::impl::ReproExpandRemainderBase<ExpandRemainder> {
  void runOnOperation() override;
};

/// Emits the remainder of f32 or f64 values, computed with integers of the same
/// width.
class RemainderBuilder {
public:
  RemainderBuilder(ImplicitLocOpBuilder &b, FloatType type)
      : b(b), type(type), width(type.getWidth()),
        mantissa(type.getFPMantissaWidth() - 1),
        integer(b.getIntegerType(width)) {}

  Value build(Value x, Value y);

private:
  using P = arith::CmpIPredicate;
  Value constant(int64_t value) {
    return arith::ConstantOp::create(b, b.getIntegerAttr(integer, value));
  }
  Value constant(const APInt &value) {
    return arith::ConstantOp::create(b, b.getIntegerAttr(integer, value));
  }
  Value compare(P predicate, Value u, Value v) {
    return arith::CmpIOp::create(b, predicate, u, v);
  }
  Value select(Value condition, Value u, Value v) {
    return arith::SelectOp::create(b, condition, u, v);
  }
  Value add(Value u, Value v) { return arith::AddIOp::create(b, u, v); }
  Value sub(Value u, Value v) { return arith::SubIOp::create(b, u, v); }
  Value left(Value u, Value by) { return arith::ShLIOp::create(b, u, by); }
  Value right(Value u, Value by) { return arith::ShRUIOp::create(b, u, by); }
  Value either(Value u, Value v) { return arith::OrIOp::create(b, u, v); }
  Value both(Value u, Value v) { return arith::AndIOp::create(b, u, v); }
  /// Returns by how many bits a significand must be shifted left so that its
  /// leading bit becomes the hidden bit of the format.
  Value getShift(Value significand) {
    Value zeros = math::CountLeadingZerosOp::create(b, significand);
    return sub(zeros, constant(int64_t(width - 1 - mantissa)));
  }
  /// Returns the biased exponent of a magnitude, and its significand with the
  /// leading bit.
  std::pair<Value, Value> split(Value magnitude);
  Value subtract(Value u, Value v) {
    return select(compare(P::uge, u, v), sub(u, v), u);
  }

  ImplicitLocOpBuilder &b;
  FloatType type;
  unsigned width, mantissa;
  IntegerType integer;
};
} // namespace

std::pair<Value, Value> RemainderBuilder::split(Value magnitude) {
  Value leading = constant(APInt::getOneBitSet(width, mantissa));
  Value exponent = right(magnitude, constant(int64_t(mantissa)));
  Value isSubnormal = compare(P::eq, exponent, constant(int64_t(0)));
  Value shift = getShift(magnitude);
  Value low = both(magnitude, constant(APInt::getLowBitsSet(width, mantissa)));
  return {select(isSubnormal, sub(constant(int64_t(1)), shift), exponent),
          select(isSubnormal, left(magnitude, shift), either(low, leading))};
}

Value RemainderBuilder::build(Value x, Value y) {
  APInt signBit = APInt::getSignMask(width);
  APInt infinity = APFloat::getInf(type.getFloatSemantics()).bitcastToAPInt();
  Value xBits = arith::BitcastOp::create(b, integer, x);
  Value yBits = arith::BitcastOp::create(b, integer, y);
  Value sign = both(xBits, constant(signBit));
  Value u = both(xBits, constant(~signBit)),
        v = both(yBits, constant(~signBit));
  Value zero = constant(int64_t(0)), one = constant(int64_t(1));
  auto [ux, mx] = split(u);
  auto [vy, my] = split(v);
  Value exponent = vy, divisor = my;
  Value steps =
      arith::IndexCastOp::create(b, b.getIndexType(), sub(ux, exponent));
  auto loop = scf::ForOp::create(
      b, arith::ConstantIndexOp::create(b, 0), steps,
      arith::ConstantIndexOp::create(b, 1), ValueRange{mx},
      [&](OpBuilder &, Location, Value, ValueRange carried) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(carried[0].getParentBlock());
        Value next = left(subtract(carried[0], divisor), one);
        scf::YieldOp::create(b, next);
      });
  Value rest = subtract(loop.getResult(0), divisor);
  Value shift = getShift(rest);
  Value isZero = compare(P::eq, rest, zero);
  shift = select(isZero, zero, shift);
  Value normalized = left(rest, shift);
  Value at = sub(exponent, shift);
  Value isNormal = compare(P::sgt, at, zero);
  Value low = both(normalized, constant(APInt::getLowBitsSet(width, mantissa)));
  Value normal = either(
      low, left(select(isNormal, at, zero), constant(int64_t(mantissa))));
  Value by = select(isNormal, zero, sub(one, at));
  // The shift of a nonzero remainder is below `width`. A shift by any other
  // amount is undefined, so such amounts become 0; their results are not used.
  by = select(compare(P::ugt, by, constant(int64_t(width - 1))), zero, by);
  Value magnitude = select(isNormal, normal, right(normalized, by));
  magnitude = select(isZero, zero, magnitude);
  magnitude = select(compare(P::ult, u, v), u, magnitude);
  // The result is a NaN if the dividend is infinite or a NaN, or if the divisor
  // is 0 or a NaN.
  Value isNaN = either(
      compare(P::uge, u, constant(infinity)),
      either(compare(P::ugt, v, constant(infinity)), compare(P::eq, v, zero)));
  APInt nan = APFloat::getQNaN(type.getFloatSemantics()).bitcastToAPInt();
  Value result = select(isNaN, constant(nan), either(magnitude, sign));
  return arith::BitcastOp::create(b, type, result);
}

void ExpandRemainder::runOnOperation() {
  SmallVector<arith::RemFOp> work;
  getOperation().walk([&](arith::RemFOp op) { work.push_back(op); });
  for (arith::RemFOp op : work) {
    auto type = dyn_cast<FloatType>(op.getType());
    if (!type) {
      op.emitOpError("(S4) expected a scalar, got ") << op.getType();
      return signalPassFailure();
    }
    ImplicitLocOpBuilder b(op.getLoc(), op);
    Value result = RemainderBuilder(b, type).build(op.getLhs(), op.getRhs());
    op.replaceAllUsesWith(result);
    op.erase();
  }
}
