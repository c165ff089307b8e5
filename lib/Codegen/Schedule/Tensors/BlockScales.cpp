//===- BlockScales.cpp - Arithmetic of block scales in bodies -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/BlockScales.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::repro;

static constexpr uint32_t kInfinity = 0x7f800000;
static constexpr double kGreatest = 0x1.fffffep127; // FLT_MAX
static constexpr float kSixth = 1.0f / 6.0f;
static constexpr int kPowerBias = 127;

//===----------------------------------------------------------------------===//
// Powers of two
//===----------------------------------------------------------------------===//

namespace {
/// A positive finite f32: m * 2^(exponent - 23), where m has 24 bits.
struct Normal {
  Value exponent, fraction; ///< i32; `fraction` excludes the hidden bit
};
} // namespace

/// Returns the exponent and fraction of `x`. Both are unspecified for zeros,
/// infinities and NaNs.
static Normal normalize(const FloatWords &w, Scalar x) {
  constexpr int kUp = 24;
  Value isSubnormal = w.compare(arith::CmpFPredicate::OLT, x, w.f32(0x1p-126));
  Scalar up = x * std::ldexp(1.0, kUp);
  Value bits = w.select(isSubnormal, w.bitsOf(up), w.bitsOf(x));
  Value bias = w.select(isSubnormal, w.constant(kSingleBias + kUp),
                        w.constant(kSingleBias));
  return {w.sub(w.right(bits, kSingleFraction), bias),
          w.both(bits, w.constant((1u << kSingleFraction) - 1))};
}

/// Returns an i1 as the i32 0 or 1.
static Value count(const FloatWords &w, Value condition) {
  return w.select(condition, w.constant(1), w.constant(0));
}

/// Returns the least integer n with 2^n >= x, for a positive finite x.
static Value ceilLog2(const FloatWords &w, Scalar x) {
  Normal normal = normalize(w, x);
  return w.add(normal.exponent,
               count(w, w.compare(arith::CmpIPredicate::ne, normal.fraction,
                                  w.constant(0))));
}

/// Returns the exponent that a block's scale has before it is clamped to the
/// range of scales. `amax` must be positive and finite. For the rule `even`,
/// sets `overflows` to whether amax rounds to 2^128.
static Value powerExponent(const FloatWords &w, Scalar amax,
                           const ElementFormat &format, PowerRule rule,
                           Value &overflows) {
  Value emax = w.constant(format.maxExponent);
  switch (rule) {
  case PowerRule::floor:
    return w.sub(normalize(w, amax).exponent, emax);
  case PowerRule::ceil:
    return w.sub(ceilLog2(w, amax), emax);
  case PowerRule::even: {
    Normal normal = normalize(w, amax);
    uint32_t half = 1u << (kSingleFraction - 1 - format.fractionBits);
    Value carry =
        w.right(w.add(normal.fraction, w.constant(half)), kSingleFraction);
    Value exponent = w.add(normal.exponent, carry);
    overflows = w.compare(arith::CmpIPredicate::eq, exponent, w.constant(128));
    return w.sub(exponent, emax);
  }
  case PowerRule::rceil: {
    Normal normal = normalize(w, amax);
    double first = format.largest * std::ldexp(1.0, -format.maxExponent);
    auto fraction = uint32_t((first - 1) * (1 << kSingleFraction));
    Value above = w.compare(arith::CmpIPredicate::ugt, normal.fraction,
                            w.constant(fraction));
    return w.add(w.sub(normal.exponent, emax), count(w, above));
  }
  case PowerRule::rceil_product: {
    Scalar ratio = amax * double(1.0f / float(format.largest));
    Value isZero = w.compare(arith::CmpFPredicate::OEQ, ratio, w.f32(0));
    return w.select(isZero, w.constant(-2 * kPowerBias), ceilLog2(w, ratio));
  }
  }
  llvm_unreachable("unknown rule");
}

static BlockScale computePower(const FloatWords &w, Scalar amax,
                               const ElementFormat &format,
                               PowerScaleAttr scale) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  Value isInfinite = w.compare(arith::CmpIPredicate::eq, w.bitsOf(amax),
                               w.constant(kInfinity));
  Value isZero = w.compare(arith::CmpFPredicate::OEQ, amax, w.f32(0));
  Value overflows;
  Value exponent = powerExponent(w, amax, format, scale.getRule(), overflows);
  exponent = arith::MaxSIOp::create(b, exponent, w.constant(-kPowerBias));
  exponent = arith::MinSIOp::create(b, exponent, w.constant(kPowerBias));
  Value byte = w.add(exponent, w.constant(kPowerBias));
  byte = w.select(isZero, w.constant(0), byte);
  uint32_t infinity = 255;
  if (scale.getInfinity() == InfiniteAmax::largest)
    infinity = 254;
  if (scale.getInfinity() == InfiniteAmax::power)
    infinity = std::min(128 - format.maxExponent + kPowerBias, 254);
  if (overflows) {
    // `overflows` is not specified for zeros and NaNs.
    Value isNumber = w.compare(arith::CmpFPredicate::OGT, amax, w.f32(0));
    isInfinite = w.either(isInfinite, w.both(overflows, isNumber));
  }
  byte = w.select(isInfinite, w.constant(infinity), byte);
  byte = w.select(w.isNaN(amax), w.constant(scale.getNan()), byte);

  // These are the bits of the reciprocal of the scale, which is subnormal for
  // byte 254.
  Value bits = w.left(w.sub(w.constant(2 * kPowerBias), byte), kSingleFraction);
  auto isByte = [&](uint32_t value) {
    return w.compare(arith::CmpIPredicate::eq, byte, w.constant(value));
  };
  auto bitsOf = [](double value) {
    return llvm::bit_cast<uint32_t>(float(value));
  };
  bits = w.select(isByte(254), w.constant(bitsOf(0x1p-127)), bits);
  bits = w.select(isByte(255), w.constant(0x7fc00000), bits);
  if (scale.getLeast() != -kPowerBias)
    bits =
        w.select(isByte(0),
                 w.constant(bitsOf(std::ldexp(1.0, -scale.getLeast()))), bits);
  return {arith::TruncIOp::create(b, b.getI8Type(), byte), w.floatOf(bits)};
}

//===----------------------------------------------------------------------===//
// Scales of f8E4M3FN
//===----------------------------------------------------------------------===//

static Value roundScale(const FloatWords &w, Scalar scale) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  ElementFormat format(b.getType<Float8E4M3FNType>());
  auto nearest =
      RoundingAttr::get(b.getContext(), RoundingDirection::rne, 0,
                        RandomLayout::site, true, NanCode::largest, true);
  return roundElement(w, scale, format, nearest);
}

/// (Q1) Returns the value of a scale, whose sign is ignored.
static Scalar readScale(const FloatWords &w, Value code) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  Scalar value(b, arith::ExtFOp::create(b, b.getF32Type(), code));
  return apply<math::AbsFOp>(value);
}

static BlockScale computeTwoLevel(const FloatWords &w, Scalar amax,
                                  Scalar tensor, TwoLevelScaleAttr scale) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  Scalar encode = w.atMost(w.f32(6 * scale.getLargest()) / tensor, kGreatest);
  Value isZero = w.compare(arith::CmpFPredicate::OEQ, encode, w.f32(0));
  encode = {b, w.select(isZero, w.f32(1).get(), encode.get())};
  Value code = roundScale(w, amax * (encode * w.f32(kSixth)));
  Scalar decode = w.f32(1) / encode;
  Scalar factor = w.f32(1) / (readScale(w, code) * decode);
  return {code, w.atMost(factor, kGreatest)};
}

static BlockScale computeQuotient(const FloatWords &w, Scalar amax,
                                  Scalar tensor) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  Scalar scaled = amax / w.f32(6), one = w.f32(1);
  if (tensor) {
    scaled = scaled / tensor;
    one = one / tensor;
  }
  Scalar least = w.f32(0x1p-6);
  Value isLess = w.compare(arith::CmpFPredicate::OLT, scaled, least);
  scaled = {b, w.select(isLess, least.get(), scaled.get())};
  Value code = roundScale(w, scaled);
  return {code, one / readScale(w, code)};
}

//===----------------------------------------------------------------------===//
// Scales of f32
//===----------------------------------------------------------------------===//

/// Returns `x` rounded down or up to a power of two that is a normal f32.
/// Zeros, infinities and NaNs are returned unchanged.
static Scalar toPower(const FloatWords &w, Scalar x, bool down) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  Value isAbove = w.compare(arith::CmpFPredicate::OGT, x, w.f32(0));
  Value isFinite = w.compare(arith::CmpFPredicate::OLE, x, w.f32(kGreatest));
  Value exponent = down ? normalize(w, x).exponent : ceilLog2(w, x);
  exponent = arith::MaxSIOp::create(b, exponent, w.constant(-126));
  exponent = arith::MinSIOp::create(b, exponent, w.constant(127));
  return {b, w.select(w.both(isAbove, isFinite), w.powerOfTwo(exponent).get(),
                      x.get())};
}

/// Returns the quotient of two f64 numbers, rounded once to f32.
static float divideOnce(double dividend, double divisor) {
  bool loses;
  APFloat quotient(dividend), by(divisor);
  for (APFloat *number : {&quotient, &by})
    number->convert(APFloat::IEEEquad(), APFloat::rmNearestTiesToEven, &loses);
  // Rounds to odd in f128: truncates, and sets the last bit if the quotient is
  // inexact. The conversion to f32 below is then correct.
  if (quotient.divide(by, APFloat::rmTowardZero) & APFloat::opInexact) {
    APInt bits = quotient.bitcastToAPInt();
    bits.setBit(0);
    quotient = APFloat(APFloat::IEEEquad(), bits);
  }
  quotient.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &loses);
  return quotient.convertToFloat();
}

static BlockScale computeF32(const FloatWords &w, Scalar amax,
                             const ElementFormat &format, F32ScaleAttr scale) {
  ImplicitLocOpBuilder &b = w.getBuilder();
  Scalar largest = w.f32(format.largest);
  double least = scale.getLeast().getValueAsDouble();
  if (scale.getInverse()) {
    // amax, an f32, is below the f64 `least` if and only if it is below the
    // smallest f32 that is at least `least`.
    auto bound = float(least);
    if (double(bound) < least)
      bound = std::nextafter(bound, INFINITY);
    Value isSmall = w.compare(arith::CmpFPredicate::OLT, amax, w.f32(bound));
    Scalar up(b,
              w.select(isSmall, w.f32(divideOnce(format.largest, least)).get(),
                       (largest / amax).get()));
    if (scale.getPower())
      up = toPower(w, up, /*down=*/true);
    return {up.get(), up};
  }
  Scalar limit = w.f32(least);
  Value isSmall = w.compare(arith::CmpFPredicate::OLT, amax, limit);
  Scalar bounded(b, w.select(isSmall, limit.get(), amax.get()));
  Scalar stored = bounded / largest;
  if (scale.getPower())
    stored = toPower(w, stored, /*down=*/false);
  switch (scale.getEncoding()) {
  case ScaleEncoding::product:
    return {stored.get(), largest / bounded};
  case ScaleEncoding::reciprocal:
    return {stored.get(), w.f32(1) / stored};
  case ScaleEncoding::quotient:
    return {stored.get(), stored};
  }
  llvm_unreachable("unknown encoding");
}

//===----------------------------------------------------------------------===//
// All rules
//===----------------------------------------------------------------------===//

bool repro::dividesByFactor(BlockFormatAttr format) {
  auto scale = dyn_cast<F32ScaleAttr>(format.getScale());
  return scale && scale.getEncoding() == ScaleEncoding::quotient;
}

BlockScale repro::computeScale(const FloatWords &w, Scalar amax, Scalar tensor,
                               BlockFormatAttr format) {
  ElementFormat element(format.getElement(), format.getSymmetric());
  return llvm::TypeSwitch<Attribute, BlockScale>(format.getScale())
      .Case([&](PowerScaleAttr scale) {
        return computePower(w, amax, element, scale);
      })
      .Case([&](TwoLevelScaleAttr scale) {
        return computeTwoLevel(w, amax, tensor, scale);
      })
      .Case([&](QuotientScaleAttr) { return computeQuotient(w, amax, tensor); })
      .Case([&](F32ScaleAttr scale) {
        return computeF32(w, amax, element, scale);
      })
      .Case([&](GivenScaleAttr) -> BlockScale {
        return {(w.f32(1) / tensor).get(), tensor};
      });
}

Scalar repro::decodeScale(const FloatWords &w, Value scale, Type type) {
  if (isa<Float8E8M0FNUType>(type))
    return decodePower(w, scale);
  return isa<Float8E4M3FNType>(type) ? readScale(w, scale)
                                     : Scalar(w.getBuilder(), scale);
}

Scalar repro::computeValue(const FloatWords &w, Value code, Value scale,
                           Scalar tensor, BlockFormatAttr format) {
  ElementFormat element(format.getElement(), format.getSymmetric());
  Scalar value = decodeElement(w, code, element);
  if (isa<PowerScaleAttr>(format.getScale()))
    return value * decodePower(w, scale);
  if (auto single = dyn_cast<F32ScaleAttr>(format.getScale())) {
    Scalar factor(w.getBuilder(), scale);
    return single.getInverse() ? value / factor : value * factor;
  }
  if (isa<GivenScaleAttr>(format.getScale()))
    return value * Scalar(w.getBuilder(), scale);
  Scalar factor = readScale(w, scale);
  if (auto twoLevel = dyn_cast<TwoLevelScaleAttr>(format.getScale()))
    factor = (factor * tensor) * w.f32(1.0f / float(6 * twoLevel.getLargest()));
  else if (tensor)
    factor = tensor * factor;
  return value * factor;
}
