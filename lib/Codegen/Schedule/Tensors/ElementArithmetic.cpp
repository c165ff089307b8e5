//===- ElementArithmetic.cpp - Arithmetic of block elements ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/ElementArithmetic.h"

#include "llvm/ADT/bit.h"

#include <cmath>

using namespace mlir;
using namespace mlir::repro;

static constexpr uint32_t kSingleNaN = 0x7fc00000;
static constexpr uint32_t kMagnitude = 0x7fffffff;

/// Adding this constant to a small nonnegative integer in f32 leaves the
/// integer in the low bits of the sum.
static constexpr double kIntegers = 0x1p23;

/// The number of fraction bits of `mxint8`.
static constexpr int kFixedFraction = 6;

bool repro::isByteFormat(Type element) {
  return isa<Float6E3M2FNType, Float6E2M3FNType, Float4E2M1FNType,
             Float8E8M0FNUType>(element);
}

ElementFormat::ElementFormat(Type element, bool symmetric)
    : type(element), isFixed(element.isInteger()), isSymmetric(symmetric),
      width(element.getIntOrFloatBitWidth()) {
  if (isFixed) {
    fractionBits = kFixedFraction;
    minExponent = 0;
    maxExponent = 0;
    largestCode = 127;
    largest = double(largestCode) / (1 << kFixedFraction);
    return;
  }
  const llvm::fltSemantics &semantics =
      cast<FloatType>(element).getFloatSemantics();
  auto codeOf = [](const APFloat &value) -> uint32_t {
    return value.bitcastToAPInt().getZExtValue();
  };
  fractionBits = APFloat::semanticsPrecision(semantics) - 1;
  minExponent = APFloat::semanticsMinExponent(semantics);
  maxExponent = APFloat::semanticsMaxExponent(semantics);
  APFloat most = APFloat::getLargest(semantics);
  largestCode = codeOf(most);
  largest = most.convertToDouble();
  if (APFloat::semanticsHasInf(semantics))
    infinityCode = codeOf(APFloat::getInf(semantics));
  // (V4) The code of the canonical NaN.
  if (APFloat::semanticsHasNaN(semantics))
    nanCode = infinityCode ? *infinityCode | 1u << (fractionBits - 1)
                           : largestCode + 1;
}

//===----------------------------------------------------------------------===//
// Words of floats
//===----------------------------------------------------------------------===//

Value FloatWords::constant(uint32_t value) const {
  return arith::ConstantOp::create(
      builder, builder.getIntegerAttr(builder.getI32Type(), APInt(32, value)));
}

Scalar FloatWords::f32(double value) const {
  return {builder, arith::ConstantOp::create(
                       builder, builder.getF32FloatAttr(float(value)))};
}

Value FloatWords::bitsOf(Scalar number) const {
  return arith::BitcastOp::create(builder, builder.getI32Type(), number.get());
}

Scalar FloatWords::floatOf(Value bits) const {
  return {builder,
          arith::BitcastOp::create(builder, builder.getF32Type(), bits)};
}

Scalar FloatWords::powerOfTwo(Value exponent) const {
  return floatOf(left(add(exponent, constant(kSingleBias)), kSingleFraction));
}

Value FloatWords::add(Value x, Value y) const {
  return arith::AddIOp::create(builder, x, y);
}

Value FloatWords::sub(Value x, Value y) const {
  return arith::SubIOp::create(builder, x, y);
}

Value FloatWords::both(Value x, Value y) const {
  return arith::AndIOp::create(builder, x, y);
}

Value FloatWords::either(Value x, Value y) const {
  return arith::OrIOp::create(builder, x, y);
}

Value FloatWords::left(Value x, unsigned by) const {
  return by ? Value(arith::ShLIOp::create(builder, x, constant(by))) : x;
}

Value FloatWords::right(Value x, unsigned by) const {
  return by ? Value(arith::ShRUIOp::create(builder, x, constant(by))) : x;
}

Value FloatWords::select(Value condition, Value x, Value y) const {
  return arith::SelectOp::create(builder, condition, x, y);
}

Value FloatWords::compare(arith::CmpIPredicate predicate, Value x,
                          Value y) const {
  return arith::CmpIOp::create(builder, predicate, x, y);
}

Value FloatWords::compare(arith::CmpFPredicate predicate, Scalar x,
                          Scalar y) const {
  return arith::CmpFOp::create(builder, predicate, x.get(), y.get());
}

Value FloatWords::isNaN(Scalar x) const {
  return compare(arith::CmpFPredicate::UNO, x, x);
}

Scalar FloatWords::atMost(Scalar x, double most) const {
  Scalar limit = f32(most);
  Value exceeds = compare(arith::CmpFPredicate::OGT, x, limit);
  return {builder, select(exceeds, limit.get(), x.get())};
}

//===----------------------------------------------------------------------===//
// Values of codes (Q1)
//===----------------------------------------------------------------------===//

Scalar repro::decodePower(const FloatWords &w, Value byte) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  Value code = arith::ExtUIOp::create(b, b.getI32Type(), byte);
  // 2^-127 is a subnormal f32. Byte 255 means NaN; here it gives the bits of
  // infinity, which are replaced below.
  constexpr uint32_t kLeastPower = 1u << (kSingleFraction - 1);
  Value bits = w.left(code, kSingleFraction);
  bits = w.select(w.compare(arith::CmpIPredicate::eq, code, w.constant(0)),
                  w.constant(kLeastPower), bits);
  bits = w.select(w.compare(arith::CmpIPredicate::eq, code, w.constant(255)),
                  w.constant(kSingleNaN), bits);
  return w.floatOf(bits);
}

Scalar repro::decodeElement(const FloatWords &w, Value code,
                            const ElementFormat &format) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  if (isa<Float8E8M0FNUType>(format.type))
    return decodePower(w, code);
  if (format.isFixed) {
    Scalar number(b, arith::SIToFPOp::create(b, b.getF32Type(), code));
    return number * std::ldexp(1.0, -kFixedFraction);
  }
  if (!isByteFormat(format.type))
    return {b, arith::ExtFOp::create(b, b.getF32Type(), code)};
  // Shifted to the fields of an f32, the code represents its value with the
  // wrong exponent bias. Multiplying by a power of two corrects the bias
  // exactly, even for subnormals (V2).
  Value bits = arith::ExtUIOp::create(b, b.getI32Type(), code);
  uint32_t signBit = 1u << (format.width - 1);
  Value fields = w.left(w.both(bits, w.constant(signBit - 1)),
                        kSingleFraction - format.fractionBits);
  Scalar magnitude =
      w.floatOf(fields) * std::ldexp(1.0, kSingleBias - 1 + format.minExponent);
  Value sign = w.left(w.both(bits, w.constant(signBit)), 32 - format.width);
  return w.floatOf(w.either(w.bitsOf(magnitude), sign));
}

IntegerType repro::getUnitType(Type element) {
  if (isa<Float4E2M1FNType, Float6E2M3FNType>(element))
    return IntegerType::get(element.getContext(), 8);
  if (isa<Float6E3M2FNType>(element))
    return IntegerType::get(element.getContext(), 16);
  return dyn_cast<IntegerType>(element);
}

int repro::getUnitExponent(const ElementFormat &format) {
  return format.minExponent - format.fractionBits;
}

/// Returns the integer of an f4E2M1FN code in units of 1/2 (0 to 4, 6, 8, 12)
/// with byte arithmetic only: the magnitude of code m is max(m, 2m - 4, 4m -
/// 16).
static Value decodeHalves(ImplicitLocOpBuilder &b, Value code) {
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI8IntegerAttr(value));
  };
  Value once = arith::AndIOp::create(b, code, number(7));
  Value twice = arith::AddIOp::create(b, once, once);
  Value fourfold = arith::AddIOp::create(b, twice, twice);
  Value magnitude = arith::MaxSIOp::create(
      b, once, arith::SubIOp::create(b, twice, number(4)));
  magnitude = arith::MaxSIOp::create(
      b, magnitude, arith::SubIOp::create(b, fourfold, number(16)));
  Value isNegative = arith::CmpIOp::create(
      b, arith::CmpIPredicate::ne, arith::AndIOp::create(b, code, number(8)),
      number(0));
  Value negative = arith::SubIOp::create(b, number(0), magnitude);
  return arith::SelectOp::create(b, isNegative, negative, magnitude);
}

Value repro::decodeInteger(const FloatWords &w, Value code,
                           const ElementFormat &format) {
  if (isa<Float4E2M1FNType>(format.type))
    return decodeHalves(w.getBuilder(), code);
  // The low bits of `units + kSigned` hold the integer, even if it is negative.
  constexpr double kSigned = 0x1.8p23;
  Scalar units = decodeElement(w, code, format) *
                 std::ldexp(1.0, -getUnitExponent(format));
  Value bits = w.sub(w.bitsOf(units + kSigned),
                     w.constant(llvm::bit_cast<uint32_t>(float(kSigned))));
  return arith::TruncIOp::create(w.getBuilder(), getUnitType(format.type),
                                 bits);
}

//===----------------------------------------------------------------------===//
// Rounding (Q3)
//===----------------------------------------------------------------------===//

/// Returns a small nonnegative f32 as an integer, rounded to nearest even.
static Value toInteger(const FloatWords &w, Scalar integer) {
  return w.sub(w.bitsOf(integer + kIntegers),
               w.constant(llvm::bit_cast<uint32_t>(float(kIntegers))));
}

/// Whether stochastic rounding of a fraction `rest` rounds up: floor(rest *
/// 2^bits) + r >= 2^bits, where r are the highest `bits` bits of `random`.
/// Requires 0 <= rest < 1.
static Value isCarried(const FloatWords &w, Scalar rest, unsigned bits,
                       Value random) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  Scalar scaled = apply<math::TruncOp>(rest * std::ldexp(1.0, bits));
  Value cut =
      bits < kSingleFraction
          ? toInteger(w, scaled)
          : Value(arith::FPToUIOp::create(b, b.getI32Type(), scaled.get()));
  // If bits is 32, 2^bits is 0 in an i32 and the difference wraps, which is
  // correct.
  Value missing = w.sub(w.constant(bits < 32 ? 1u << bits : 0), cut);
  Value drawn = w.right(random, 32 - bits);
  return arith::AndIOp::create(
      b, w.compare(arith::CmpIPredicate::ne, cut, w.constant(0)),
      w.compare(arith::CmpIPredicate::uge, drawn, missing));
}

/// Returns `units` rounded to an integer. `units` must be small and not
/// negative.
static Value roundUnits(const FloatWords &w, Scalar units,
                        RoundingAttr rounding, Value random) {
  switch (rounding.getDirection()) {
  case RoundingDirection::rne:
    return toInteger(w, units); // the addition rounds to nearest even
  case RoundingDirection::away:
    return toInteger(w, apply<math::RoundOp>(units));
  case RoundingDirection::rz:
    return toInteger(w, apply<math::TruncOp>(units));
  case RoundingDirection::sr: {
    Scalar whole = apply<math::TruncOp>(units);
    Value carried = isCarried(w, units - whole, rounding.getBits(), random);
    Value integer = toInteger(w, whole);
    return w.select(carried, w.add(integer, w.constant(1)), integer);
  }
  }
  llvm_unreachable("unknown direction");
}

/// Returns the code of a number, given its magnitude and sign. The code of a
/// NaN is unspecified.
static Value roundFixed(const FloatWords &w, Scalar magnitude, Value isNegative,
                        const ElementFormat &format, RoundingAttr rounding,
                        Value random) {
  Scalar units = w.atMost(magnitude, 4) * std::ldexp(1.0, kFixedFraction);
  Value integer = roundUnits(w, units, rounding, random);
  Value most = w.constant(format.largestCode);
  if (!format.isSymmetric)
    most = w.select(isNegative, w.constant(format.largestCode + 1), most);
  Value exceeds = w.compare(arith::CmpIPredicate::ugt, integer, most);
  integer = w.select(exceeds, most, integer);
  return w.select(isNegative, w.sub(w.constant(0), integer), integer);
}

static Value roundFloat(const FloatWords &w, Scalar magnitude,
                        const ElementFormat &format, RoundingAttr rounding,
                        Value random) {
  bool saturates = rounding.getSaturate();
  // Clamps the magnitude: magnitudes above the limit get the code of the
  // largest value or, without saturation, the code of an overflow.
  magnitude =
      w.atMost(magnitude, saturates ? format.largest
                                    : std::ldexp(1.0, format.maxExponent + 1));
  Value field = w.right(w.bitsOf(magnitude), kSingleFraction);
  Value least = w.constant(format.minExponent + kSingleBias);
  field = arith::MaxUIOp::create(w.getBuilder(), field, least);
  // `units` is the magnitude in units of the last bit that rounding keeps: at
  // most 2^(M+1), where M is the number of fraction bits.
  Value up = w.sub(w.constant(2 * kSingleBias + format.fractionBits), field);
  Scalar units = magnitude * w.floatOf(w.left(up, kSingleFraction));
  Value integer = roundUnits(w, units, rounding, random);
  // For a normal number, `field - least` is one less than the exponent field of
  // the code. The hidden bit of `integer` adds this one, and a carry adds
  // another one.
  Value code = w.add(w.left(w.sub(field, least), format.fractionBits), integer);
  if (saturates)
    return code;
  uint32_t beyond =
      format.infinityCode.value_or(format.nanCode.value_or(format.largestCode));
  Value exceeds = w.compare(arith::CmpIPredicate::ugt, code,
                            w.constant(format.largestCode));
  return w.select(exceeds, w.constant(beyond), code);
}

/// Returns the code to which NaN is rounded.
static uint32_t codeOfNaN(const ElementFormat &format, NanCode nan) {
  if (format.nanCode)
    return *format.nanCode;
  switch (nan) {
  case NanCode::largest:
    return format.largestCode;
  case NanCode::zero:
    return 0;
  case NanCode::negative_zero:
    return format.isFixed ? 0 : 1u << (format.width - 1);
  }
  llvm_unreachable("unknown code of NaN");
}

Value repro::roundElement(const FloatWords &w, Scalar number,
                          const ElementFormat &format, RoundingAttr rounding,
                          Value random) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  Value bits = w.bitsOf(number);
  Scalar magnitude = w.floatOf(w.both(bits, w.constant(kMagnitude)));
  Value isNegative = w.compare(arith::CmpIPredicate::slt, bits, w.constant(0));
  Value code;
  if (format.isFixed) {
    code = roundFixed(w, magnitude, isNegative, format, rounding, random);
  } else {
    code = roundFloat(w, magnitude, format, rounding, random);
    Value signedCode = w.either(
        code, w.select(isNegative, w.constant(1u << (format.width - 1)),
                       w.constant(0)));
    // An overflow to NaN yields the canonical NaN without a sign (V4).
    if (!rounding.getSaturate() && !format.infinityCode && format.nanCode)
      signedCode = w.select(w.compare(arith::CmpIPredicate::eq, code,
                                      w.constant(*format.nanCode)),
                            code, signedCode);
    code = signedCode;
  }
  if (!rounding.getSignedZero())
    code = w.select(w.compare(arith::CmpFPredicate::OEQ, magnitude, w.f32(0)),
                    w.constant(0), code);
  code = w.select(w.isNaN(number),
                  w.constant(codeOfNaN(format, rounding.getNan())), code);
  code = arith::TruncIOp::create(b, b.getI8Type(), code);
  if (format.isFixed || isByteFormat(format.type))
    return code;
  return arith::BitcastOp::create(b, format.type, code);
}
