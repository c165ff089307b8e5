//===- Derivatives.cpp - Derivatives of scalar operations (J2) ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/IR/Derivatives.h"
#include "dialects/Repro/IR/Repro.h"

using namespace mlir;
using namespace mlir::repro;

#include "dialects/Repro/IR/DerivativeOpInterface.cpp.inc"

using Predicate = arith::CmpFPredicate;

SmallVector<Scalar> PowiOp::buildDerivatives(Scalar g, ArrayRef<Scalar> x,
                                             Scalar) {
  ImplicitLocOpBuilder &b = g.getBuilder();
  Value exponent = x[1].get();
  auto constant = [&](int64_t number) -> Value {
    TypedAttr attr = b.getIntegerAttr(exponent.getType(), number);
    return arith::ConstantOp::create(b, attr);
  };
  Value less = arith::SubIOp::create(b, exponent, constant(1));
  Scalar power(b, PowiOp::create(b, g.getType(), x[0].get(), less));
  Scalar factor(b, arith::SIToFPOp::create(b, g.getType(), exponent));
  Scalar isZero(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, exponent,
                                         constant(0)));
  return {select(isZero, g.constant(0), g * (factor * power)), Scalar()};
}

Scalar repro::derivePowerByBase(Scalar g, Scalar base, Scalar exponent) {
  Scalar zero = g.constant(0);
  Scalar slope = exponent * apply<PowOp>(base, exponent - 1.0);
  return select(compare(Predicate::OEQ, exponent, zero), zero, g * slope);
}

Scalar repro::derivePowerByExponent(Scalar g, Scalar base, Scalar exponent,
                                    Scalar power) {
  Scalar zero = g.constant(0);
  // For a base of 0 and positive exponents the power is constant, so the
  // derivative is 0 although the logarithm of 0 is infinite.
  Scalar isFlat = compare(Predicate::OGE, exponent, zero);
  Scalar ofZero = select(isFlat, zero, g * power * apply<LogOp>(base));
  return select(compare(Predicate::OEQ, base, zero), ofZero,
                g * (power * apply<LogOp>(base)));
}

//===----------------------------------------------------------------------===//
// Upstream's operations
//===----------------------------------------------------------------------===//

using Operands = ArrayRef<Scalar>;
using Gradients = SmallVector<Scalar>;

/// (J3) Differentiates a maximum (minimum): the greater (lesser) operand gets
/// the gradient, as does a NaN operand. Equal operands get half of the gradient
/// each.
static Gradients deriveExtreme(Scalar g, Operands x, Predicate wins) {
  Scalar zero = g.constant(0), half = g * 0.5;
  Scalar isFirst = compare(wins, x[0], x[1]);
  Scalar isEqual = compare(Predicate::OEQ, x[0], x[1]);
  Scalar firstIsNan = compare(Predicate::UNO, x[0], x[0]);
  Scalar first = select(isEqual, half, select(isFirst, g, zero));
  Scalar second = select(isEqual, half, select(isFirst, zero, g));
  return {select(firstIsNan, g, first), select(firstIsNan, zero, second)};
}

static Scalar signOf(Scalar x) {
  return apply<math::CopySignOp>(x.constant(1), x);
}

static Gradients derive(arith::AddFOp, Scalar g, Operands, Scalar) {
  return {g, g};
}
static Gradients derive(arith::SubFOp, Scalar g, Operands, Scalar) {
  return {g, -g};
}
static Gradients derive(arith::MulFOp, Scalar g, Operands x, Scalar) {
  return {g * x[1], g * x[0]};
}
static Gradients derive(arith::DivFOp, Scalar g, Operands x, Scalar y) {
  return {g / x[1], -(g * y / x[1])};
}
static Gradients derive(arith::RemFOp, Scalar g, Operands x, Scalar) {
  return {g, -(g * apply<math::TruncOp>(x[0] / x[1]))};
}
static Gradients derive(arith::NegFOp, Scalar g, Operands, Scalar) {
  return {-g};
}
static Gradients derive(arith::MaximumFOp, Scalar g, Operands x, Scalar) {
  return deriveExtreme(g, x, Predicate::OGT);
}
static Gradients derive(arith::MinimumFOp, Scalar g, Operands x, Scalar) {
  return deriveExtreme(g, x, Predicate::OLT);
}
static Gradients derive(arith::SelectOp, Scalar g, Operands x, Scalar) {
  Scalar zero = g.constant(0);
  return {Scalar(), select(x[0], g, zero), select(x[0], zero, g)};
}
static Gradients derive(arith::ExtFOp, Scalar g, Operands x, Scalar) {
  return {g.convert(x[0].getType())};
}
static Gradients derive(arith::TruncFOp, Scalar g, Operands x, Scalar) {
  return {g.convert(x[0].getType())};
}
static Gradients derive(math::SqrtOp, Scalar g, Operands, Scalar y) {
  return {g / (y * 2.0)};
}
static Gradients derive(math::FmaOp, Scalar g, Operands x, Scalar) {
  return {g * x[1], g * x[0], g};
}
static Gradients derive(math::AbsFOp, Scalar g, Operands x, Scalar) {
  Scalar isZero = compare(Predicate::OEQ, x[0], x[0].constant(0));
  return {select(isZero, g.constant(0), g * signOf(x[0]))};
}
static Gradients derive(math::CopySignOp, Scalar g, Operands x, Scalar) {
  return {g * (signOf(x[0]) * signOf(x[1])), Scalar()};
}
// The derivative of a step function is zero wherever it exists.
static Gradients derive(math::FloorOp, Scalar, Operands, Scalar) {
  return {Scalar()};
}
static Gradients derive(math::CeilOp, Scalar, Operands, Scalar) {
  return {Scalar()};
}
static Gradients derive(math::TruncOp, Scalar, Operands, Scalar) {
  return {Scalar()};
}
static Gradients derive(math::RoundOp, Scalar, Operands, Scalar) {
  return {Scalar()};
}
static Gradients derive(math::RoundEvenOp, Scalar, Operands, Scalar) {
  return {Scalar()};
}

namespace {
template <typename Op>
struct Model : DerivativeOpInterface::ExternalModel<Model<Op>, Op> {
  SmallVector<Scalar> buildDerivatives(Operation *op, Scalar g,
                                       ArrayRef<Scalar> x, Scalar y) const {
    return derive(cast<Op>(op), g, x, y);
  }
};
} // namespace

template <typename... Ops>
static void attach(MLIRContext *context) {
  (Ops::template attachInterface<Model<Ops>>(*context), ...);
}

void repro::registerDerivatives(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attach<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
           arith::RemFOp, arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp,
           arith::SelectOp, arith::ExtFOp, arith::TruncFOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attach<math::SqrtOp, math::FmaOp, math::AbsFOp, math::CopySignOp,
           math::FloorOp, math::CeilOp, math::TruncOp, math::RoundOp,
           math::RoundEvenOp>(context);
  });
}
