//===- AccumulatorChain.cpp - Integer sums of matrix units ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/AccumulatorChain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

static constexpr int64_t kF32Fraction = 23, kF32Bias = 127;
/// The exponent given to zeros, which is below that of every nonzero product.
static constexpr int64_t kNoExponent = -10000;
/// An exact sum is stored as kDigits digits of kDigitBits bits. The lowest bit
/// has the value 2^kFirstBit, which is two digits below 2^-298, the lowest bit
/// of a product of two f32.
static constexpr int64_t kDigitBits = 32, kDigits = 20, kFirstBit = -298 - 64;
/// The number of leading bits of an exact sum that are kept for rounding. The
/// last of these bits is sticky: it is also set if any lower bit is set.
static constexpr int64_t kKeptBits = 50;

int64_t kernels::getLeastExponent(Type element) {
  const llvm::fltSemantics &semantics =
      cast<FloatType>(element).getFloatSemantics();
  return APFloat::semanticsMinExponent(semantics);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

Value BlockPart::getProduct(KernelBuilder &b, Value j) const {
  if (half < 0)
    return b.add(first, j);
  Value group = b.mul(b.div(j, 2), 4);
  return b.add(b.add(first, group), b.add(b.rem(j, 2), 2 * half));
}

SmallVector<BlockPart> kernels::getBlockParts(KernelBuilder &b, FdpaAttr rule,
                                              Value first, Value end) {
  Value count = b.min(b.sub(end, first), b.index(rule.getBlock()));
  if (!rule.getLate())
    return {{first, count}};
  // The first two products of an incomplete last group of four belong to the
  // first half.
  Value whole = b.mul(b.div(count, 4), 2), rest = b.rem(count, 4);
  Value ofFirst = b.add(whole, b.min(rest, b.index(2)));
  return {{first, ofFirst, 0}, {first, b.sub(count, ofFirst), 1}};
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

AccumulatorChain::AccumulatorChain(KernelBuilder &b, FdpaAttr rule, Type x,
                                   Type y)
    : b(b), rule(rule), x(x), y(y), leastX(getLeastExponent(x)),
      leastY(getLeastExponent(y)) {
  if (!rule.getFraction())
    digits = b.getScratch(b.getI64Type(), kDigits);
}

Value AccumulatorChain::i32(int64_t value) {
  return b.constant(b.getI32IntegerAttr(value));
}

Value AccumulatorChain::i64(int64_t value) {
  return b.constant(b.getI64IntegerAttr(value));
}

Value AccumulatorChain::f32(double value) {
  return b.constant(b.getF32FloatAttr(value));
}

Value AccumulatorChain::extend(Value value) {
  return arith::ExtSIOp::create(b, b.getI64Type(), value);
}

static Value isLess(KernelBuilder &b, Value x, Value y) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y);
}

Value AccumulatorChain::clamp(Value value, int64_t low, int64_t high) {
  value = arith::MaxSIOp::create(b, value, i32(low));
  return arith::MinSIOp::create(b, value, i32(high));
}

Value AccumulatorChain::isNonzero(Value integer) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, integer,
                               b.zero(integer.getType()));
}

Value AccumulatorChain::negateIf(Value condition, Value value) {
  Value negated = arith::SubIOp::create(b, b.zero(value.getType()), value);
  return b.select(condition, negated, value);
}

/// Returns 2^exponent. The result must be a normal f32.
Value AccumulatorChain::powerOfTwo(Value exponent) {
  Value biased = arith::AddIOp::create(b, exponent, i32(kF32Bias));
  Value bits = arith::ShLIOp::create(b, biased, i32(kF32Fraction));
  return arith::BitcastOp::create(b, b.getF32Type(), bits);
}

/// (M1) Returns the sign, Sig and Exp of `value`.
AccumulatorChain::Number AccumulatorChain::split(Value value,
                                                 int64_t leastExponent) {
  Value bits = arith::BitcastOp::create(b, b.getI32Type(), value);
  Value magnitude = arith::AndIOp::create(b, bits, i32(0x7fffffff));
  Value field = arith::ShRUIOp::create(b, magnitude, i32(kF32Fraction));
  Value fraction = arith::AndIOp::create(b, magnitude, i32(0x7fffff));
  Value normal = arith::OrIOp::create(b, fraction, i32(0x800000));
  Value significand = b.select(isNonzero(field), normal, fraction);
  Value exponent = arith::SubIOp::create(
      b, arith::MaxSIOp::create(b, field, i32(1)), i32(kF32Bias));
  if (leastExponent > 1 - kF32Bias) {
    // As an f32, a subnormal of the element type ends in zero bits, so the
    // shift loses nothing.
    Value places = arith::SubIOp::create(b, i32(leastExponent), exponent);
    significand = arith::ShRUIOp::create(b, significand, clamp(places, 0, 31));
    exponent = arith::MaxSIOp::create(b, exponent, i32(leastExponent));
  }
  return {isLess(b, bits, i32(0)), significand, exponent, kF32Fraction};
}

/// Returns `value` if `condition` is true; otherwise +0.
Value AccumulatorChain::whereSpecial(Value condition, Value value) {
  return b.select(condition, value, f32(0));
}

static Value isSpecial(KernelBuilder &b, Value value) {
  Value bits = arith::BitcastOp::create(b, b.getI32Type(), value);
  Value mask = b.constant(b.getI32IntegerAttr(0x7f800000));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                               arith::AndIOp::create(b, bits, mask), mask);
}

AccumulatorChain::Product AccumulatorChain::multiply(Value x, Value y) {
  Number p = split(x, leastX), q = split(y, leastY);
  // `special` is the f32 product if a factor is infinite or a NaN: inf * 0 is a
  // NaN. In the other cases the f32 product is discarded, so it may overflow.
  Value special =
      whereSpecial(arith::OrIOp::create(b, isSpecial(b, x), isSpecial(b, y)),
                   arith::MulFOp::create(b, x, y));
  auto wide = [&](Value value) -> Value {
    return arith::ExtUIOp::create(b, b.getI64Type(), value);
  };
  return {{arith::XOrIOp::create(b, p.negative, q.negative),
           arith::MulIOp::create(b, wide(p.significand), wide(q.significand)),
           arith::AddIOp::create(b, p.exponent, q.exponent), 2 * kF32Fraction},
          special};
}

/// Returns n, where 2^-n is the smallest positive value of `type`.
static int64_t getUnitPlaces(Type type) {
  const llvm::fltSemantics &of = cast<FloatType>(type).getFloatSemantics();
  return int64_t(APFloat::semanticsPrecision(of)) - 1 -
         APFloat::semanticsMinExponent(of);
}

AccumulatorChain::Product AccumulatorChain::addGroup(Value start, Value end,
                                                     Load loadX, Load loadY) {
  int64_t placesX = getUnitPlaces(x), placesY = getUnitPlaces(y);
  auto toInteger = [&](Value value, int64_t places) {
    Value finite = b.select(isSpecial(b, value), f32(0), value);
    Value units =
        arith::MulFOp::create(b, finite, f32(std::ldexp(1.0, int(places))));
    return extend(arith::FPToSIOp::create(b, b.getI32Type(), units));
  };
  SmallVector<Value> sums =
      b.loop(start, end, 1, {i64(0), f32(0)}, [&](Value k, ValueRange carried) {
        Value first = loadX(k), second = loadY(k);
        Value product = arith::MulIOp::create(b, toInteger(first, placesX),
                                              toInteger(second, placesY));
        return SmallVector<Value>{
            arith::AddIOp::create(b, carried[0], product),
            arith::AddFOp::create(b, carried[1],
                                  multiply(first, second).special)};
      });
  Value negative = isLess(b, sums[0], i64(0));
  return {{negative, negateIf(negative, sums[0]), i32(0), placesX + placesY},
          sums[1]};
}

AccumulatorChain::Product AccumulatorChain::scale(const Product &product,
                                                  const Scale &by, Value k) {
  // (Q1) The sign of a scale is ignored.
  Value value = math::AbsFOp::create(b, by.load(k));
  bool isPower = by.type.isF32();
  // f32 scales are powers of two, so their significand is 1 even if they are
  // subnormal.
  Number factor =
      split(value, isPower ? 1 - kF32Bias : getLeastExponent(by.type));
  Product scaled = product;
  Number &number = scaled.number;
  if (isPower) {
    Value field = arith::ShRUIOp::create(
        b, arith::BitcastOp::create(b, b.getI32Type(), value),
        i32(kF32Fraction));
    factor.exponent = arith::SubIOp::create(b, field, i32(kF32Bias));
  } else {
    constexpr int64_t kFraction = 3; // of f8E4M3FN
    Value significand = arith::ShRUIOp::create(b, factor.significand,
                                               i32(kF32Fraction - kFraction));
    number.significand = arith::MulIOp::create(
        b, number.significand,
        arith::ExtUIOp::create(b, b.getI64Type(), significand));
    number.fraction += kFraction;
  }
  number.exponent = arith::AddIOp::create(b, number.exponent, factor.exponent);
  scaled.special = arith::AddFOp::create(
      b, product.special, whereSpecial(isSpecial(b, value), value));
  return scaled;
}

//===----------------------------------------------------------------------===//
// A block
//===----------------------------------------------------------------------===//

AccumulatorChain::Sum AccumulatorChain::addAligned(Value count, Value top,
                                                   const Number &c,
                                                   GetProduct getProduct) {
  int64_t fraction = *rule.getFraction();
  auto align = [&](Number number) {
    if (int64_t missing = fraction - number.fraction; missing > 0) {
      number.significand =
          arith::ShLIOp::create(b, number.significand, i64(missing));
      number.fraction = fraction;
    }
    Value places =
        arith::AddIOp::create(b, arith::SubIOp::create(b, top, number.exponent),
                              i32(number.fraction - fraction));
    // The shift is clamped because the exponent of a zero may be above `top`.
    Value cut = arith::ShRUIOp::create(b, number.significand,
                                       extend(clamp(places, 0, 63)));
    return negateIf(number.negative, cut);
  };
  Number wide = c;
  wide.significand = arith::ShLIOp::create(
      b, arith::ExtUIOp::create(b, b.getI64Type(), c.significand),
      i64(kF32Fraction));
  wide.fraction += kF32Fraction;
  Value total = b.loop(
      b.index(0), count, 1, {align(wide)}, [&](Value j, ValueRange sums) {
        Value aligned = align(getProduct(j).number);
        return SmallVector<Value>{arith::AddIOp::create(b, sums[0], aligned)};
      })[0];
  Value negative = isLess(b, total, i64(0));
  return {negative, negateIf(negative, total),
          arith::SubIOp::create(b, top, i32(fraction))};
}

/// Adds magnitude * 2^place to the digits, or subtracts it. `magnitude` has at
/// most 48 bits. Carries are left in the digits, which are i64.
void AccumulatorChain::addToDigits(Value negative, Value magnitude,
                                   Value place) {
  Value bit = arith::SubIOp::create(b, place, i32(kFirstBit));
  Value index = arith::IndexCastOp::create(
      b, b.getIndexType(), arith::ShRUIOp::create(b, bit, i32(5)));
  Value offset = extend(arith::AndIOp::create(b, bit, i32(kDigitBits - 1)));
  Value mask = i64(0xffffffff);
  auto low = [&](Value value) -> Value {
    return arith::AndIOp::create(b, value, mask);
  };
  auto high = [&](Value value) -> Value {
    return arith::ShRUIOp::create(b, value, i64(kDigitBits));
  };
  auto add = [&](int64_t i, Value value) {
    Value at = b.add(index, i);
    Value digit = b.load(digits, b.getI64Type(), at);
    b.store(arith::AddIOp::create(b, digit, negateIf(negative, value)), digits,
            at);
  };
  Value first = arith::ShLIOp::create(b, low(magnitude), offset);
  Value second = arith::AddIOp::create(
      b, arith::ShLIOp::create(b, high(magnitude), offset), high(first));
  add(0, low(first));
  add(1, low(second));
  add(2, high(second));
}

AccumulatorChain::Sum AccumulatorChain::takeDigits() {
  Value mask = i64(0xffffffff);
  Type type = b.getI64Type();
  auto carryOver = [&](Value start, function_ref<Value(Value)> change) {
    return b.loop(b.index(0), b.index(kDigits), 1, {start},
                  [&](Value i, ValueRange carry) {
                    Value digit = arith::AddIOp::create(
                        b, change(b.load(digits, type, i)), carry[0]);
                    b.store(arith::AndIOp::create(b, digit, mask), digits, i);
                    return SmallVector<Value>{
                        arith::ShRSIOp::create(b, digit, i64(kDigitBits))};
                  })[0];
  };
  Value negative =
      isLess(b, carryOver(i64(0), [](Value digit) { return digit; }), i64(0));
  // Turns a negative sum into its magnitude: the two's complement.
  (void)carryOver(b.select(negative, i64(1), i64(0)), [&](Value digit) {
    return b.select(negative, arith::XOrIOp::create(b, digit, mask), digit);
  });
  // Finds the highest nonzero digit. `rest` holds the next two digits, and
  // `below` tells whether any lower digit is nonzero.
  Value zero = b.index(2);
  Value last = b.loop(
      b.index(2), b.index(kDigits), 1, {zero}, [&](Value i, ValueRange found) {
        Value digit = b.load(digits, type, i);
        return SmallVector<Value>{b.select(isNonzero(digit), i, found[0])};
      })[0];
  Value below = b.loop(b.index(0), b.sub(last, b.index(2)), 1, {i64(0)},
                       [&](Value i, ValueRange all) {
                         return SmallVector<Value>{arith::OrIOp::create(
                             b, all[0], b.load(digits, type, i))};
                       })[0];
  Value high = b.load(digits, type, last);
  Value rest = arith::OrIOp::create(
      b,
      arith::ShLIOp::create(b, b.load(digits, type, b.sub(last, b.index(1))),
                            i64(kDigitBits)),
      b.load(digits, type, b.sub(last, b.index(2))));
  // The exponent of the highest digit as an f64 gives the digit's width in
  // bits.
  Value asFloat = arith::BitcastOp::create(
      b, type, arith::SIToFPOp::create(b, b.getF64Type(), high));
  Value width = arith::SubIOp::create(
      b, arith::ShRUIOp::create(b, asFloat, i64(52)), i64(1022));
  width = arith::MaxSIOp::create(b, width, i64(1));
  Value cut = arith::AddIOp::create(b, width, i64(64 - kKeptBits));
  Value kept = arith::OrIOp::create(
      b, arith::ShLIOp::create(b, high, arith::SubIOp::create(b, i64(64), cut)),
      arith::ShRUIOp::create(b, rest, cut));
  Value lost = arith::OrIOp::create(
      b, below,
      arith::ShLIOp::create(b, rest, arith::SubIOp::create(b, i64(64), cut)));
  kept = arith::OrIOp::create(
      b, kept, arith::ExtUIOp::create(b, b.getI64Type(), isNonzero(lost)));
  Value digit = arith::IndexCastOp::create(b, b.getI32Type(), last);
  Value place = arith::AddIOp::create(
      b, arith::MulIOp::create(b, digit, i32(kDigitBits)),
      arith::AddIOp::create(b, arith::TruncIOp::create(b, b.getI32Type(), cut),
                            i32(kFirstBit - 2 * kDigitBits)));
  return {negative, kept, place};
}

AccumulatorChain::Sum AccumulatorChain::addExactly(Value count, const Number &c,
                                                   GetProduct getProduct) {
  b.loop(b.index(0), b.index(kDigits), 1,
         [&](Value i) { b.store(i64(0), digits, i); });
  addToDigits(c.negative,
              arith::ExtUIOp::create(b, b.getI64Type(), c.significand),
              arith::SubIOp::create(b, c.exponent, i32(kF32Fraction)));
  b.loop(b.index(0), count, 1, [&](Value j) {
    Number product = getProduct(j).number;
    addToDigits(
        product.negative, product.significand,
        arith::SubIOp::create(b, product.exponent, i32(product.fraction)));
  });
  return takeDigits();
}

Value AccumulatorChain::round(const Sum &sum) {
  SumRounding rounding = rule.getRound();
  bool isF16 = rounding == SumRounding::rne_f16;
  int64_t precision = isF16 ? 11 : rounding == SumRounding::rz_e8m13 ? 14 : 24;
  int64_t leastExponent = isF16 ? -14 : 1 - kF32Bias;
  // The exponent of the sum as an f64 is the position of its highest bit. The
  // sum of a group may have more than 53 bits: first the bit after each set bit
  // is cleared, so that the conversion does not round the sum up to the next
  // power of two.
  Value first = sum.magnitude;
  if (rule.getGroup() > 1)
    first = arith::AndIOp::create(
        b, first,
        arith::XOrIOp::create(b, arith::ShRUIOp::create(b, first, i64(1)),
                              i64(-1)));
  Value asFloat = arith::BitcastOp::create(
      b, b.getI64Type(), arith::SIToFPOp::create(b, b.getF64Type(), first));
  first = arith::SubIOp::create(
      b,
      arith::TruncIOp::create(b, b.getI32Type(),
                              arith::ShRUIOp::create(b, asFloat, i64(52))),
      i32(1023));
  Value least = arith::SubIOp::create(b, i32(leastExponent), sum.place);
  Value cut =
      clamp(arith::SubIOp::create(b, arith::MaxSIOp::create(b, first, least),
                                  i32(precision - 1)),
            0, 62);
  Value wideCut = extend(cut);
  Value kept = arith::ShRUIOp::create(b, sum.magnitude, wideCut);
  bool isNearest = isF16 || rounding == SumRounding::rne_f32;
  if (isNearest) {
    Value rest = arith::SubIOp::create(b, sum.magnitude,
                                       arith::ShLIOp::create(b, kept, wideCut));
    Value twice = arith::AddIOp::create(b, rest, rest);
    // Rounds to nearest even: a halfway case is rounded up if `kept` is odd.
    Value odd = arith::AndIOp::create(b, kept, i64(1));
    Value unit = arith::ShLIOp::create(b, i64(1), wideCut);
    Value isUp = isLess(b, unit, arith::AddIOp::create(b, twice, odd));
    kept = arith::AddIOp::create(
        b, kept, arith::ExtUIOp::create(b, b.getI64Type(), isUp));
  }
  // Multiplies by two powers of two, because a single one may exceed the range
  // of f32. Every result beyond 2^250 is infinite.
  Value place = arith::MinSIOp::create(
      b, arith::AddIOp::create(b, sum.place, cut), i32(250));
  Value half = arith::ShRSIOp::create(b, place, i32(1));
  Value value = arith::SIToFPOp::create(
      b, b.getF32Type(), arith::TruncIOp::create(b, b.getI32Type(), kept));
  value = arith::MulFOp::create(b, value, powerOfTwo(half));
  value = arith::MulFOp::create(
      b, value, powerOfTwo(arith::SubIOp::create(b, place, half)));
  if (isF16) {
    Value isOver =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, value, f32(65536));
    value =
        b.select(isOver, f32(std::numeric_limits<double>::infinity()), value);
  }
  Value sign = b.select(sum.negative, i32(INT32_MIN), i32(0));
  Value bits = arith::OrIOp::create(
      b, arith::BitcastOp::create(b, b.getI32Type(), value), sign);
  Value signedValue = arith::BitcastOp::create(b, b.getF32Type(), bits);
  // (M1) If rounding toward zero gives zero, the result is +0.
  Value isSigned = isNonzero(isNearest ? sum.magnitude : kept);
  return b.select(isSigned, signedValue, f32(0));
}

Value AccumulatorChain::addBlock(Value count, Value c, GetProduct getProduct) {
  bool isF16 = rule.getRound() == SumRounding::rne_f16;
  Number number = split(c, isF16 ? -14 : 1 - kF32Bias);
  Value none = i32(kNoExponent);
  SmallVector<Value> starts = {
      b.select(isNonzero(number.significand), number.exponent, none),
      whereSpecial(isSpecial(b, c), c)};
  SmallVector<Value> found =
      b.loop(b.index(0), count, 1, starts, [&](Value j, ValueRange carried) {
        Product product = getProduct(j);
        Value exponent = b.select(isNonzero(product.number.significand),
                                  product.number.exponent, none);
        return SmallVector<Value>{
            arith::MaxSIOp::create(b, carried[0], exponent),
            arith::AddFOp::create(b, carried[1], product.special)};
      });
  Value top = arith::MaxSIOp::create(b, found[0], i32(rule.getFloor()));
  Sum sum = rule.getFraction() ? addAligned(count, top, number, getProduct)
                               : addExactly(count, number, getProduct);
  // (M1) If a factor or c is infinite or a NaN, the result is the f32 sum of
  // these special values.
  Value isFinite =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, found[1], f32(0));
  return b.select(isFinite, round(sum), found[1]);
}

Value AccumulatorChain::add(Value start, Value end, Value c, Load loadX,
                            Load loadY) {
  return b.loop(
      start, end, rule.getBlock(), {c}, [&](Value first, ValueRange carried) {
        Value before = carried[0];
        Value total = rule.getLate() ? f32(0) : before;
        for (const BlockPart &part : getBlockParts(b, rule, first, end))
          total = addBlock(part.count, total, [&](Value j) {
            Value k = part.getProduct(b, j);
            return multiply(loadX(k), loadY(k));
          });
        if (rule.getLate()) { // (M3)
          total = arith::AddFOp::create(b, total, before);
          if (rule.getRound() == SumRounding::rne_f16)
            total = b.convertFloat(b.convertFloat(total, b.getF16Type()),
                                   b.getF32Type());
        }
        return SmallVector<Value>{total};
      })[0];
}

Value AccumulatorChain::addChunks(int64_t n, int64_t chunk, Value init,
                                  Load loadX, Load loadY) {
  if (rule.getStart() == SumStart::init)
    return add(b.index(0), b.index(n), init, loadX, loadY);
  Value zero = f32(0);
  Value total = add(b.index(0), b.index(chunk), zero, loadX, loadY);
  // (F3) Adds the remaining chunks.
  total = b.loop(b.index(chunk), b.index(n), chunk, {total},
                 [&](Value start, ValueRange totals) {
                   Value end = b.min(b.add(start, chunk), b.index(n));
                   return SmallVector<Value>{arith::AddFOp::create(
                       b, totals[0], add(start, end, zero, loadX, loadY))};
                 })[0];
  return arith::AddFOp::create(b, init, total);
}

Value AccumulatorChain::addScaled(int64_t n, Load loadX, Load loadY,
                                  const Scale &scaleX, const Scale &scaleY) {
  int64_t terms = rule.getTerms(), group = rule.getGroup();
  return b.loop(
      b.index(0), b.index(n), terms, {f32(0)},
      [&](Value first, ValueRange carried) {
        Value end = b.min(b.add(first, terms), b.index(n));
        Value count = b.div(b.add(b.sub(end, first), group - 1), group);
        auto getProduct = [&](Value j) {
          Value k = b.add(first, b.mul(j, group));
          Product product =
              group > 1 ? addGroup(k, b.min(b.add(k, group), end), loadX, loadY)
                        : multiply(loadX(k), loadY(k));
          return scale(scale(product, scaleX, k), scaleY, k);
        };
        return SmallVector<Value>{addBlock(count, carried[0], getProduct)};
      })[0];
}
