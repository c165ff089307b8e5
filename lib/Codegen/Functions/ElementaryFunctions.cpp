//===- ElementaryFunctions.cpp - Correctly rounded functions --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// See https://llvm.org/LICENSE.txt for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementaryFunctions.h"
#include "DoubleFormulas.h"
#include "Formulas.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace {

/// The machine of Formulas.h and DoubleFormulas.h that emits MLIR operations.
class Emitter {
public:
  struct F64 {
    Value value;
    Emitter *m;

    F64 operator+(F64 b) const { return m->emit<arith::AddFOp>(*this, b); }
    F64 operator-(F64 b) const { return m->emit<arith::SubFOp>(*this, b); }
    F64 operator*(F64 b) const { return m->emit<arith::MulFOp>(*this, b); }
    F64 operator/(F64 b) const { return m->emit<arith::DivFOp>(*this, b); }
    F64 operator-() const { return m->emit<arith::NegFOp>(*this); }
  };
  struct F32 {
    Value value;
    Emitter *m;
  };
  struct I64 {
    Value value;
    Emitter *m;

    I64 operator+(I64 b) const { return m->emit<arith::AddIOp>(*this, b); }
    I64 operator-(I64 b) const { return m->emit<arith::SubIOp>(*this, b); }
    I64 operator*(I64 b) const { return m->emit<arith::MulIOp>(*this, b); }
    I64 operator&(I64 b) const { return m->emit<arith::AndIOp>(*this, b); }
    I64 operator|(I64 b) const { return m->emit<arith::OrIOp>(*this, b); }
    I64 operator^(I64 b) const { return m->emit<arith::XOrIOp>(*this, b); }
  };
  struct Mask {
    Value value;
    Emitter *m;
  };

  /// `shape` is a scalar or vector type. All values have the number of lanes of
  /// `shape`.
  Emitter(OpBuilder &builder, Location loc, Type shape)
      : b(loc, builder), shape(shape) {}

  F32 constant(float v) { return {splat(b.getF32FloatAttr(v)), this}; }
  F64 constant(double v) { return {splat(b.getF64FloatAttr(v)), this}; }
  I64 constant(int64_t v) { return {splat(b.getI64IntegerAttr(v)), this}; }
  F64 fma(F64 x, F64 y, F64 z) {
    return {math::FmaOp::create(b, x.value, y.value, z.value), this};
  }
  F64 sqrt(F64 x) { return {math::SqrtOp::create(b, x.value), this}; }
  F32 abs(F32 x) { return {math::AbsFOp::create(b, x.value), this}; }
  F32 copysign(F32 x, F32 sign) {
    return {math::CopySignOp::create(b, x.value, sign.value), this};
  }
  F64 abs(F64 x) { return {math::AbsFOp::create(b, x.value), this}; }
  F64 copysign(F64 x, F64 sign) {
    return {math::CopySignOp::create(b, x.value, sign.value), this};
  }
  I64 bits(F64 x) {
    return {arith::BitcastOp::create(b, lanes(b.getI64Type()), x.value), this};
  }
  F64 real(I64 x) {
    return {arith::BitcastOp::create(b, lanes(b.getF64Type()), x.value), this};
  }
  F64 toReal(I64 x) {
    return {arith::SIToFPOp::create(b, lanes(b.getF64Type()), x.value), this};
  }
  Mask lt(F32 x, F32 y) { return compare(arith::CmpFPredicate::OLT, x, y); }
  Mask eq(F32 x, F32 y) { return compare(arith::CmpFPredicate::OEQ, x, y); }
  Mask unequal(F32 x, F32 y) {
    return compare(arith::CmpFPredicate::UNE, x, y);
  }
  Mask lt(F64 x, F64 y) { return compare(arith::CmpFPredicate::OLT, x, y); }
  Mask le(F64 x, F64 y) { return compare(arith::CmpFPredicate::OLE, x, y); }
  Mask eq(F64 x, F64 y) { return compare(arith::CmpFPredicate::OEQ, x, y); }
  Mask unequal(F64 x, F64 y) {
    return compare(arith::CmpFPredicate::UNE, x, y);
  }
  Mask ieq(I64 x, I64 y) { return compare(arith::CmpIPredicate::eq, x, y); }
  Mask ine(I64 x, I64 y) { return compare(arith::CmpIPredicate::ne, x, y); }
  Mask both(Mask x, Mask y) {
    return {arith::AndIOp::create(b, x.value, y.value), this};
  }
  Mask either(Mask x, Mask y) {
    return {arith::OrIOp::create(b, x.value, y.value), this};
  }
  Mask differ(Mask x, Mask y) {
    return {arith::XOrIOp::create(b, x.value, y.value), this};
  }
  /// Returns whether x and y round to different f32 values.
  Mask roundsApart(F64 x, F64 y) {
    return compare(arith::CmpFPredicate::ONE, narrow(x), narrow(y));
  }
  F32 select(Mask mask, F32 x, F32 y) {
    return {arith::SelectOp::create(b, mask.value, x.value, y.value), this};
  }
  F64 select(Mask mask, F64 x, F64 y) {
    return {arith::SelectOp::create(b, mask.value, x.value, y.value), this};
  }
  I64 iselect(Mask mask, I64 x, I64 y) {
    return {arith::SelectOp::create(b, mask.value, x.value, y.value), this};
  }
  I64 shl(I64 x, int n) { return emit<arith::ShLIOp>(x, constant(int64_t(n))); }
  I64 shr(I64 x, int n) {
    return emit<arith::ShRUIOp>(x, constant(int64_t(n)));
  }
  I64 sar(I64 x, int n) {
    return emit<arith::ShRSIOp>(x, constant(int64_t(n)));
  }
  I64 shlv(I64 x, I64 n) { return emit<arith::ShLIOp>(x, n); }
  I64 shrv(I64 x, I64 n) { return emit<arith::ShRUIOp>(x, n); }

  /// Returns 1 / sqrt(x) computed in f32: the root and the quotient are
  /// rounded.
  F32 rsqrtEstimate(F32 x) {
    Value root = math::SqrtOp::create(b, x.value);
    return {arith::DivFOp::create(b, constant(1.0f).value, root), this};
  }

  F64 widen(F32 x) {
    return {arith::ExtFOp::create(b, lanes(b.getF64Type()), x.value), this};
  }
  /// Whether `type` is an integer of at most 64 bits, or a vector of such
  /// integers with as many lanes as `shape`.
  bool hasLanes(Type type) {
    Type element = getElementTypeOrSelf(type);
    return type == lanes(element) && element.isInteger() &&
           element.getIntOrFloatBitWidth() <= 64;
  }
  /// Returns the integer x sign-extended to i64.
  I64 integer(Value x) {
    if (getElementTypeOrSelf(x).isInteger(64))
      return {x, this};
    return {arith::ExtSIOp::create(b, lanes(b.getI64Type()), x), this};
  }
  F32 narrow(F64 x) {
    return {arith::TruncFOp::create(b, lanes(b.getF32Type()), x.value), this};
  }

  /// Returns the result of `slow` in the lanes of `mask`, and `ordinary` in the
  /// other lanes. The code of `slow` runs only if `mask` has an active lane.
  template <typename Pair, typename Slow>
  Pair ifAny(Mask mask, Pair ordinary, Slow slow) {
    Type type = lanes(b.getF64Type());
    auto branch = scf::IfOp::create(b, TypeRange{type, type}, any(mask),
                                    /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Pair other = slow();
    scf::YieldOp::create(b,
                         ValueRange{select(mask, other.r, ordinary.r).value,
                                    select(mask, other.t, ordinary.t).value});
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, ValueRange{ordinary.r.value, ordinary.t.value});
    return {F64{branch.getResult(0), this}, F64{branch.getResult(1), this}};
  }

private:
  template <typename Op, typename T, typename... Ts>
  T emit(T x, Ts... rest) {
    return {Op::create(b, x.value, rest.value...), this};
  }
  template <typename F>
  Mask compare(arith::CmpFPredicate predicate, F x, F y) {
    return {arith::CmpFOp::create(b, predicate, x.value, y.value), this};
  }
  Mask compare(arith::CmpIPredicate predicate, I64 x, I64 y) {
    return {arith::CmpIOp::create(b, predicate, x.value, y.value), this};
  }
  Type lanes(Type element) {
    if (auto vector = dyn_cast<VectorType>(shape))
      return vector.clone(element);
    return element;
  }
  Value splat(TypedAttr value) {
    Type type = lanes(value.getType());
    if (auto vector = dyn_cast<VectorType>(type))
      value = SplatElementsAttr::get(vector, value);
    return arith::ConstantOp::create(b, value);
  }
  Value any(Mask mask) {
    auto vector = dyn_cast<VectorType>(shape);
    if (!vector)
      return mask.value;
    Value flat = mask.value;
    if (vector.getRank() != 1)
      flat = vector::ShapeCastOp::create(
          b, VectorType::get({vector.getNumElements()}, b.getI1Type()), flat);
    return vector::ReductionOp::create(b, vector::CombiningKind::OR, flat);
  }

  ImplicitLocOpBuilder b;
  Type shape;
};

using Formulas = repro::functions::Formulas<Emitter>;
using DoubleFormulas = repro::functions::DoubleFormulas<Emitter>;

/// A member function of F with one operand. `Number` is the machine's f32 or
/// f64.
template <typename F, typename Number>
using Unary = Number (F::*)(Number);

template <typename F, typename Number>
Unary<F, Number> lookupUnary(StringRef mnemonic) {
  return llvm::StringSwitch<Unary<F, Number>>(mnemonic)
      .Case("acos", &F::acos)
      .Case("acosh", &F::acosh)
      .Case("asin", &F::asin)
      .Case("asinh", &F::asinh)
      .Case("atan", &F::atan)
      .Case("atanh", &F::atanh)
      .Case("cbrt", &F::cbrt)
      .Case("cos", &F::cos)
      .Case("cosh", &F::cosh)
      .Case("erf", &F::erf)
      .Case("erfc", &F::erfc)
      .Case("exp", &F::exp)
      .Case("exp10", &F::exp10)
      .Case("exp2", &F::exp2)
      .Case("expm1", &F::expm1)
      .Case("log", &F::log)
      .Case("log10", &F::log10)
      .Case("log1p", &F::log1p)
      .Case("log2", &F::log2)
      .Case("rsqrt", &F::rsqrt)
      .Case("sin", &F::sin)
      .Case("sinh", &F::sinh)
      .Case("tan", &F::tan)
      .Case("tanh", &F::tanh)
      .Default(nullptr);
}

using Binary = Emitter::F32 (Formulas::*)(Emitter::F32, Emitter::F32);

Binary lookupBinary(StringRef mnemonic) {
  return llvm::StringSwitch<Binary>(mnemonic)
      .Case("atan2", &Formulas::atan2)
      .Case("hypot", &Formulas::hypot)
      .Case("pow", &Formulas::pow)
      .Default(nullptr);
}

} // namespace

bool repro::isElementaryFunction(StringRef mnemonic) {
  return lookupUnary<Formulas, Emitter::F32>(mnemonic) ||
         lookupBinary(mnemonic) || mnemonic == "powi";
}

Value repro::buildFunction(OpBuilder &builder, Location loc, StringRef mnemonic,
                           ValueRange operands) {
  if (operands.empty())
    return {};
  Type type = operands.front().getType();
  Type element = getElementTypeOrSelf(type);
  if (isa<ShapedType>(type) && !isa<VectorType>(type))
    return {};
  Emitter emitter(builder, loc, type);
  if (element.isF64()) {
    DoubleFormulas formulas(emitter);
    Emitter::F64 x = {operands.front(), &emitter};
    Value result;
    if (auto unary = lookupUnary<DoubleFormulas, Emitter::F64>(mnemonic);
        unary && operands.size() == 1)
      result = (formulas.*unary)(x).value;
    else if (mnemonic == "powi" && operands.size() == 2 &&
             emitter.hasLanes(operands.back().getType()))
      result = formulas.powi(x, emitter.integer(operands.back())).value;
    // The error bound that docs/reference/functions.md requires for correct
    // rounding.
    assert(formulas.getError() < 0x1p-138 && "the formula is not exact enough");
    return result;
  }
  if (!element.isF32())
    return {};
  Formulas formulas(emitter);
  Emitter::F32 x = {operands.front(), &emitter};
  if (auto unary = lookupUnary<Formulas, Emitter::F32>(mnemonic);
      unary && operands.size() == 1)
    return (formulas.*unary)(x).value;
  if (operands.size() != 2)
    return {};
  Value y = operands.back();
  if (mnemonic == "powi" && emitter.hasLanes(y.getType()))
    return formulas.powi(x, emitter.integer(y)).value;
  if (Binary binary = lookupBinary(mnemonic); binary && y.getType() == type)
    return (formulas.*binary)(x, {y, &emitter}).value;
  return {};
}
