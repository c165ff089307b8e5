//===- DoubleFormulas.h - Formulas of the f64 functions ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The correctly rounded f64 functions (S5), written over a machine M (see
// Formulas.h). Each function is computed in fixed point with at least 168 bits
// and rounded once. docs/reference/functions.md describes the methods and the
// error bounds that getError() returns.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_FUNCTIONS_DOUBLEFORMULAS_H
#define REPRO_CODEGEN_FUNCTIONS_DOUBLEFORMULAS_H

#include "Coefficients.h"
#include "FixedPoint.h"

#include <limits>

namespace mlir::repro::functions {

/// The f64 functions. M is the machine on which they compute (see Formulas.h).
template <typename M>
class DoubleFormulas : public FixedPoint<M> {
  using Base = FixedPoint<M>;
  using Base::c;
  using Base::exactReal;
  using Base::i;
  using Base::kBits;
  using Base::kDigitMask;
  using Base::kMantissaMask;
  using Base::kOneBits;
  using Base::kRoundShift;
  using Base::kRoundShiftBits;
  using Base::kSignBit;
  using Base::load;
  using Base::m;
  using Base::multiply;
  using Base::negateIf;
  using Base::normalize;
  using Base::reciprocal;
  using Base::reciprocalRoot;
  using Base::round;
  using Base::select;
  using Base::series;
  using Base::shiftRight;
  using Base::sum;
  using Base::unit;
  using typename Base::Fixed;
  using typename Base::Scaled;
  using typename Base::Sum;

public:
  using typename Base::F64;
  using typename Base::I64;
  using typename Base::Mask;

  explicit DoubleFormulas(M &machine) : Base(machine) {}

  //===--------------------------------------------------------------------===//
  // Exponentials
  //===--------------------------------------------------------------------===//

  F64 exp(F64 x) {
    Power p = powerOfE(clamp(x, -746.0, 710.0));
    return keepNaN(x, round(power(p), 0.7, p.n, i(0)));
  }

  F64 exp2(F64 x) {
    F64 v = clamp(x, -1076.0, 1025.0);
    F64 t = v + c(kRoundShift);
    // 2^-1075 lies halfway between 0 and the least positive f64, so it rounds
    // to even: to 0 (see the select below).
    Fixed a = sum(7)
                  .plusReal(m.abs(v - (t - c(kRoundShift))), 8, unit(8))
                  .value(0.51);
    I64 sign = m.sar(m.bits(v - (t - c(kRoundShift))), 63);
    a = multiply(a, load(kLongLn2, 7), 7);
    Power p = powerOf(a, sign, m.bits(t) - i(kRoundShiftBits));
    F64 y = round(power(p), 0.7, p.n, i(0));
    y = m.select(m.le(x, c(-1075.0)), c(0.0), y);
    return keepNaN(x, y);
  }

  F64 exp10(F64 x) {
    F64 v = clamp(x, -324.0, 309.0);
    F64 t = v * c(0x1.a934f0979a371p+1) + c(kRoundShift);
    I64 n = m.bits(t) - i(kRoundShiftBits);
    // Computes x log(10) - n log(2): multiplies |x| by log(10) in fixed point
    // and applies the sign of x.
    I64 sign = m.sar(m.bits(v), 63);
    Fixed w = sum(7).plusReal(m.abs(v), 8, unit(8)).value(325.0);
    Fixed product = multiply(w, load(kLongLn10, 8), 7);
    Sum remainder = sum(7);
    remainder.plusSigned(product, sign);
    remainder.plusMultiple(i(0) - n, load(kLongLn2, 8), 1077);
    I64 side;
    Fixed a = remainder.magnitude(0.34658, side);
    Power p = powerOf(a, side, n);
    F64 y = round(power(p), 0.7, n, i(0));
    // 10^23 lies halfway between two f64, because 5^23 has 54 bits. 1e23 is the
    // correct result.
    y = m.select(m.eq(x, c(23.0)), c(1e23), y);
    return keepNaN(x, y);
  }

  F64 expm1(F64 x) {
    F64 v = clamp(x, -64.0, 710.0);
    Power p = powerOfE(v);
    Leading f = leading(v);
    Mask small = m.ieq(p.n, i(0));
    // `near` is expm1(x) for n = 0: x (sinh(r)/r + (cosh(r) - 1)/r).
    Fixed factor = sum(6).plus(p.sinh).plusSigned(p.cosh, p.sign).value(1.25);
    Fixed near = multiply(f.mantissa, factor, 7);
    // `far` is the magnitude for n != 0: 2^n (e^r - 2^-n) for a positive n,
    // where round() applies 2^n, and 1 - 2^n e^r for a negative n.
    I64 below = m.sar(p.n, 63);
    Fixed e = power(p);
    Fixed scale = powerOfTwo(i(0) - negateIf(below, p.n));
    Fixed up = sum(6).plus(e).minus(scale).value(1.5);
    Fixed down = sum(6).plus(one()).minusProduct(e, scale).value(1.0);
    Fixed far = select(m.ine(below, i(0)), down, up);
    I64 exponent = m.iselect(m.ine(below, i(0)), i(0), p.n);
    F64 y = round(select(small, near, far), 0.2,
                  m.iselect(small, f.exponent, exponent), signBit(v));
    return keepZeroAndNaN(x, y);
  }

  F64 sinh(F64 x) {
    F64 v = clamp(m.abs(x), 0.0, 712.0);
    Power p = powerOfE(v);
    Leading f = leading(v);
    Mask small = m.ieq(p.n, i(0));
    Fixed far = sum(6)
                    .plus(power(p))
                    .minusProduct(inversePower(p), inverseSquare(p.n))
                    .value(1.5);
    Fixed near = multiply(f.mantissa, p.sinh, 7);
    F64 y = round(select(small, near, far), 0.3,
                  m.iselect(small, f.exponent, p.n - i(1)), i(0));
    return keepZeroAndNaN(x, m.copysign(y, x));
  }

  F64 cosh(F64 x) {
    Power p = powerOfE(clamp(m.abs(x), 0.0, 712.0));
    Fixed s = sum(6)
                  .plus(power(p))
                  .plusProduct(inversePower(p), inverseSquare(p.n))
                  .value(2.9);
    return keepNaN(x, round(s, 0.7, p.n - i(1), i(0)));
  }

  F64 tanh(F64 x) {
    F64 v = clamp(m.abs(x), 0.0, 40.0);
    Power p = powerOfE(v);
    Leading f = leading(v);
    Mask small = m.ieq(p.n, i(0));
    Fixed e = power(p);
    Fixed inverse = inversePower(p);
    Fixed square = inverseSquare(p.n);
    Fixed far = sum(6).plus(e).minusProduct(inverse, square).value(1.5);
    Fixed near = multiply(f.mantissa, p.sinh, 7);
    Scaled d =
        normalize(sum(6).plus(e).plusProduct(inverse, square).value(2.9), 0.7);
    Fixed r = reciprocal(d.mantissa, this->approximate(d.mantissa), 6);
    Fixed q = multiply(select(small, near, far), r, 7);
    I64 exponent = m.iselect(small, f.exponent + i(1), i(0)) - d.exponent;
    return keepZeroAndNaN(x, m.copysign(round(q, 0.3, exponent, i(0)), x));
  }

  //===--------------------------------------------------------------------===//
  // Logarithms
  //===--------------------------------------------------------------------===//

  F64 log(F64 x) {
    return logSpecial(x, 0.0,
                      roundLog(logarithm(binade(x)), kLongLn2, nullptr));
  }
  F64 log2(F64 x) {
    return logSpecial(x, 0.0,
                      roundLog(logarithm(binade(x)), kLongOne, &kLongLog2E));
  }
  F64 log10(F64 x) {
    return logSpecial(
        x, 0.0, roundLog(logarithm(binade(x)), kLongLog10Of2, &kLongLog10E));
  }
  F64 log1p(F64 x) {
    // w + low is exactly 1 + x.
    F64 w = c(1.0) + x;
    F64 part = w - c(1.0);
    F64 low = (c(1.0) - (w - part)) + (x - part);
    Binade b = binade(w);
    Mask small = m.ieq(b.k, i(0));
    // From 2^200 on, `low` does not affect the result.
    Mask huge = m.ieq(m.sar(i(200) - b.k, 63), i(-1));
    F64 scale = m.real(m.shl(i(1023) - m.iselect(huge, i(0), b.k), 52));
    b.low = m.select(m.either(small, huge), c(0.0), low * scale);
    b.f = m.select(small, x, b.f);
    return keepZero(
        x, logSpecial(x, -1.0, roundLog(logarithm(b), kLongLn2, nullptr)));
  }

  F64 asinh(F64 x) {
    F64 a = m.abs(x);
    Mask direct = m.lt(a, c(0.35));
    Leading f = leading(clamp(a, 0.0, kLargest));
    // With a = v 2^e, e >= 0: asinh(a) = log(v + sqrt(v^2 + 2^-2e)) + e log(2).
    I64 e = f.exponent & (m.sar(f.exponent, 63) ^ i(-1));
    F64 v = m.real(m.bits(clamp(a, 0.0, kLargest)) - m.shl(e, 52));
    Fixed fixed = sum(7).plusReal(v, 8, unit(8)).value(2.01);
    Fixed square =
        sum(7).plusProduct(fixed, fixed).plus(inverseSquare(e)).value(5.1);
    F64 scale = m.real(m.shl(i(1023) - smaller(e, 500), 52));
    F64 real = v * v + scale * scale;
    Fixed root = multiply(square, reciprocalRoot(square, real, 7), 7);
    root.bound = 2.3;
    Fixed total = sum(7).plus(fixed).plus(root).value(4.3);
    AreaSum area = logarithmOf(total, v + m.sqrt(real));
    // Where `direct` holds (near 0):
    // asinh(a) = 2 atanh(a / (1 + sqrt(1 + a^2))).
    Fixed d = shiftRight(sum(7).plus(one()).plus(root).value(3.3), 1, 7);
    F64 half = c(0.5) + m.sqrt(real) * c(0.5);
    Fixed r = reciprocal(d, half, 7);
    Fixed near = multiply(f.mantissa, r, 7);
    Fixed s = shiftRight(multiply(fixed, r, 7), 1, 7);
    s = select(direct, s, area.s);
    s.bound = 0.1716;
    Fixed result = areaOf(direct, near, s, area.k + e, area.sign);
    F64 y = round(result, 0.14, m.iselect(direct, f.exponent, i(1)), i(0));
    y = m.select(m.lt(a, c(kInfinity)), y, a);
    return keepZeroAndNaN(x, m.copysign(y, x));
  }

  F64 acosh(F64 x) {
    F64 a = clamp(x, 1.0, kLargest);
    Mask direct = m.lt(a, c(1.0625));
    Leading f = leading(a);
    // With x = v 2^e: acosh(x) = log(v + sqrt(v^2 - 2^-2e)) + e log(2).
    Fixed fixed = f.mantissa;
    Fixed square = sum(7)
                       .plusProduct(fixed, fixed)
                       .minus(inverseSquare(f.exponent))
                       .value(4.0);
    // Where `direct` holds (near 1): with x - 1 = g 4^k, g in [1, 4),
    // acosh(x) = 2 atanh(sqrt(g 4^k / (x + 1))).
    Leading rest = leading(f.real - c(1.0));
    I64 odd = rest.exponent & i(1);
    I64 k = m.sar(rest.exponent, 1);
    F64 g = m.real(m.bits(rest.real) + m.shl(odd, 52));
    Fixed fixedG = exactReal(g, 3, 4);
    Fixed onePlus = sum(7).plus(one()).plus(fixed).value(3.0);
    F64 scale = m.real(m.shl(i(1023) - smaller(f.exponent, 500), 52));
    F64 real = m.select(direct, g * (f.real + c(1.0)),
                        (f.real - scale) * (f.real + scale));
    square = select(direct, multiply(fixedG, onePlus, 7), square);
    square.bound = 8.3;
    Fixed r = reciprocalRoot(square, real, 7);
    Fixed root = multiply(square, r, 7);
    root.bound = 3.0;
    Fixed near = multiply(fixedG, r, 7);
    near.bound = 2.1;
    F64 power = m.select(direct, m.real(m.shl(k + i(1023), 52)), c(0.0));
    Fixed small =
        multiply(near, sum(7).plusReal(power, 8, unit(8)).value(1.01), 7);
    Fixed total = sum(7).plus(fixed).plus(root).value(4.3);
    AreaSum area = logarithmOf(total, f.real + m.sqrt(real));
    Fixed s = select(direct, small, area.s);
    s.bound = 0.1745;
    Fixed result = areaOf(direct, near, s, area.k + f.exponent, area.sign);
    F64 y = round(result, 0.14, m.iselect(direct, k + i(1), i(1)), i(0));
    y = m.select(m.eq(x, c(1.0)), c(0.0), y);
    y = m.select(m.lt(x, c(kInfinity)), y, x);
    return m.select(m.le(c(1.0), x), y, c(kNaN));
  }

  F64 atanh(F64 x) {
    F64 a = clamp(m.abs(x), 0.0, 1 - 0x1p-53);
    Leading f = leading(a);
    F64 n = c(1.0) + a;
    F64 d = c(1.0) - a;
    F64 low = (c(1.0) - d) - a;
    // (1 + a) / (1 - a) = 2^k q with q close to 1.
    I64 k = m.shr(m.bits(n) - m.bits(d) + i(int64_t(1) << 51), 52);
    Mask direct = m.ieq(k, i(0));
    F64 scale = m.real(m.shl(k + i(1023), 52));
    low = m.select(direct, c(0.0), low);
    Fixed fixed = sum(7).plusReal(a, 8, unit(8)).value(1.0);
    Fixed top = sum(7).plus(one()).plus(fixed).value(2.01);
    Fixed bottom = sum(7)
                       .plusReal(d * scale, 8, unit(8))
                       .plusReal(low * scale, 8, unit(8))
                       .value(2.8);
    I64 sign;
    Fixed difference = sum(7).plus(top).minus(bottom).magnitude(0.81, sign);
    Fixed quarter = shiftRight(sum(7).plus(top).plus(bottom).value(4.8), 2, 7);
    Fixed r = reciprocal(quarter, (n + d * scale) * c(0.25), 7);
    Fixed s =
        select(direct, fixed, shiftRight(multiply(difference, r, 7), 2, 7));
    s.bound = 0.2042;
    Fixed result = areaOf(direct, f.mantissa, s, k, sign);
    // atanh(a) is half of log((1 + a) / (1 - a)).
    F64 y = round(result, 0.14, m.iselect(direct, f.exponent, i(0)), i(0));
    y = m.select(m.lt(m.abs(x), c(1.0)), y,
                 m.select(m.eq(m.abs(x), c(1.0)), c(kInfinity), c(kNaN)));
    return keepZero(x, m.copysign(y, x));
  }

  //===--------------------------------------------------------------------===//
  // Error function
  //===--------------------------------------------------------------------===//

  F64 erf(F64 x) {
    // From 5.93 on, the result rounds to 1.
    F64 a = clamp(m.abs(x), 0.0, 5.9375);
    Leading f = leading(a);
    // a = c + h with c = j / 8 and |h| <= 1/16.
    F64 t = a * c(8.0) + c(kRoundShift);
    I64 j = m.bits(t) - i(kRoundShiftBits);
    F64 offset = a - (t - c(kRoundShift)) * c(0.125);
    I64 sign = m.sar(m.bits(offset), 63);
    Mask first = m.ieq(j, i(0));
    Fixed h = sum(6).plusReal(m.abs(offset), 7, unit(7)).value(0.0626);
    Fixed start = choose(kLongErf, j);
    Fixed slope = choose(kLongErfSlope, j);
    // y(h) = erf(c + h) e^(2 c h + h^2) is a series y(0) + h (w_1 + w_2 + ...).
    // Term w_n has the sign of h^(n-1). Since y' = 2 (c + h) y + slope, each
    // term follows from the two before it.
    Fixed twoC = sum(6).plusMultiple(j, load(kLongQuarter, 6), 48).value(12.1);
    Fixed ch = multiply(h, twoC, 6);
    ch.bound = 0.7501;
    Fixed hh = multiply(h, h, 6);
    Fixed twoHh = sum(6).plus(hh).plus(hh).value(0.00784);
    Fixed odd = sum(6).plus(slope).plusProduct(twoC, start).value(12.1);
    Fixed even = sum(6)
                     .plusProduct(ch, odd)
                     .plusProduct(sum(6).plus(h).plus(h).value(0.1252), start)
                     .value(9.2);
    even = shiftRight(even, 1, 6);
    Fixed last[2] = {odd, even}; // w_n for odd and even n
    Sum sums[2] = {sum(6), sum(6)};
    double bounds[2] = {odd.bound, even.bound};
    sums[0].plus(odd);
    sums[1].plus(even);
    for (int n = 3; n <= 40; ++n) {
      Fixed &older = last[(n - 1) & 1], &newer = last[n & 1];
      double bound = ch.bound * newer.bound + twoHh.bound * older.bound;
      Fixed next =
          sum(6).plusProduct(ch, newer).plusProduct(twoHh, older).value(bound);
      older = multiply(next, load(kLongInverse[n], 6), 6);
      sums[(n - 1) & 1].plus(older);
      bounds[(n - 1) & 1] += older.bound;
    }
    Fixed w = sum(6)
                  .plus(sums[0].value(bounds[0]))
                  .plusSigned(sums[1].value(bounds[1]), sign)
                  .value(bounds[0] + bounds[1]);
    w.error += 0x1p-165;
    // `decay` is e^-(2 c h + h^2), whose exponent is at most 0.75 in magnitude.
    I64 side;
    Fixed exponent =
        sum(6).plus(hh).plusSigned(ch, sign).magnitude(0.7501, side);
    Fixed decay = smallPower(exponent, side ^ i(-1));
    Fixed y = sum(6).plus(start).plusSigned(multiply(h, w, 6), sign).value(2.2);
    Fixed value =
        multiply(select(first, multiply(f.mantissa, w, 6), y), decay, 6);
    F64 result = round(value, 0.06, m.iselect(first, f.exponent, i(0)), i(0));
    return keepZeroAndNaN(x, m.copysign(result, x));
  }

  F64 erfc(F64 x) {
    // From 27.3 on, the result rounds to 0.
    F64 a = clamp(m.abs(x), 0.0, 27.5);
    // a = c + h with c = j / 4 and |h| <= 1/8.
    F64 t = a * c(4.0) + c(kRoundShift);
    I64 j = m.bits(t) - i(kRoundShiftBits);
    F64 offset = a - (t - c(kRoundShift)) * c(0.25);
    I64 sign = m.sar(m.bits(offset), 63);
    Fixed h = sum(7).plusReal(m.abs(offset), 8, unit(8)).value(0.12501);
    // y(h) = erfc(c + h) e^((c + h)^2) is a series v_0 + v_1 + ...; term v_n
    // has the sign of (-h)^n. Since y' = 2 (c + h) y - 2 / sqrt(pi), each term
    // follows from the two before it.
    Fixed twoC = sum(6).plusMultiple(j, load(kLongHalf, 1), 110).value(55.1);
    Fixed twoCh = multiply(twoC, h, 7);
    twoCh.bound = 6.88;
    Fixed hh = multiply(h, h, 7);
    Fixed twoHh = sum(7).plus(hh).plus(hh).value(0.03126);
    Fixed first = choose(kLongErfcx, j);
    Fixed slope = sum(7)
                      .plus(load(kLongTwoOverSqrtPi, 7))
                      .minusProduct(twoC, first)
                      .value(1.13);
    Fixed last[2] = {first, multiply(h, slope, 7)};
    last[1].bound = 0.1411;
    Sum sums[2] = {sum(7), sum(7)};
    sums[0].plus(last[0]);
    sums[1].plus(last[1]);
    for (int n = 2; n <= 41; ++n) {
      Fixed &older = last[n & 1], &newer = last[(n - 1) & 1];
      // The bound of term n is the one for c = 0, where the derivatives of y
      // are greatest.
      double most = std::exp2(-3.0 * n) / std::tgamma(n / 2.0 + 1);
      Fixed next = sum(7)
                       .plusProduct(twoHh, older)
                       .minusProduct(twoCh, newer)
                       .atLeastZero(n * most * 1.01);
      older = multiply(next, load(kLongInverse[n], 7), 7);
      sums[n & 1].plus(older);
    }
    Fixed y = sum(7)
                  .plus(sums[0].value(1.02))
                  .plusSigned(sums[1].value(0.15), sign ^ i(-1))
                  .value(1.02);
    y.error += 0x1p-180;
    // e^(-a^2)
    Fixed fixed = sum(7).plusReal(a, 8, unit(8)).value(27.6);
    Fixed square = multiply(fixed, fixed, 7);
    F64 shifted = c(kRoundShift) - a * a * c(kLog2E);
    I64 n = m.bits(shifted) - i(kRoundShiftBits);
    I64 side;
    Fixed r = sum(7)
                  .plusMultiple(i(0) - n, load(kLongLn2, 8), 1100)
                  .minus(square)
                  .magnitude(0.34658, side);
    Power p = powerOf(r, side, n);
    Fixed value = multiply(y, power(p), 7);
    Mask negative = m.lt(x, c(0.0));
    Fixed other = sum(7)
                      .plus(sum(0).plus(one()).plus(one()).value(2.1))
                      .minusProduct(value, powerOfTwo(n))
                      .value(2.01);
    F64 result = round(select(negative, other, value), 0.014,
                       m.iselect(negative, i(0), n), i(0));
    return keepNaN(x, result);
  }

  //===--------------------------------------------------------------------===//
  // Powers
  //===--------------------------------------------------------------------===//

  F64 powi(F64 x, I64 n) {
    F64 a = m.abs(x);
    Binade b = binade(a);
    Logarithm l = logarithm(b);
    // |log2(a)| = t 2^e. e is 0 unless a is close to 1.
    Mask near = m.ieq(l.k, i(0));
    Fixed product = multiply(select(near, l.leading, l.magnitude), l.factor, 7);
    product = multiply(product, load(kLongLog2E, 7), 7);
    I64 side = m.sar(l.k, 63);
    Fixed far = sum(7)
                    .plusMultiple(negateIf(side, l.k), one(), 1100)
                    .plusSigned(product, l.sign ^ side)
                    .value(1100);
    Fixed t = select(near, product, far);
    I64 sign = m.iselect(near, l.sign, side);
    Mask unit = m.eq(a, c(1.0));
    I64 e = m.iselect(m.either(unit, m.ine(l.k, i(0))), i(0), l.exponent);
    F64 scale = m.real(m.shl(e + i(1023), 52));
    // Splits |n| 2^e into two parts, each exact as an f64. If the product with
    // t exceeds 1200, the result overflows or underflows, and the parts are 0.
    I64 down = m.sar(n, 63);
    I64 magnitude = negateIf(down, n);
    F64 high = this->wholeReal(m.shr(magnitude, 32)) * c(0x1p32) * scale;
    F64 low = this->wholeReal(magnitude & i(0xffffffff)) * scale;
    F64 real = this->wholeReal(t.digits[0]) +
               this->wholeReal(t.digits[1]) * c(0x1p-28);
    Mask beyond = m.lt(c(1200.0), (high + low) * real);
    Mask simple = m.either(beyond, unit);
    high = m.select(simple, c(0.0), high);
    low = m.select(simple, c(0.0), low);
    Fixed factor = sum(7).plusReal(high, 3, 0).plusReal(low, 3, 0).value(2500);
    Fixed z = multiply(factor, t, 7);
    // z = whole + r with |r| <= 1/2.
    Sum halfAdded = sum(7);
    halfAdded.plus(z).plus(load(kLongHalf, 1));
    Fixed y = halfAdded.value(1202);
    I64 whole = y.digits[0];
    I64 flip = sign ^ down;
    y.digits[0] = i(0);
    I64 below;
    Fixed r = sum(7).plus(y).minus(load(kLongHalf, 1)).magnitude(0.5001, below);
    I64 exponent = negateIf(flip, whole);
    Power p =
        powerOf(multiply(r, load(kLongLn2, 7), 7), below ^ flip, exponent);
    // Rounds to the nearest multiple of 2^-140 if that is within 2^-141. A
    // power that is halfway between two f64 lies exactly on such a multiple.
    Sum snapped = sum(6);
    snapped.plus(power(p));
    snapped.add(6, i(int64_t(1) << (kBits - 1)));
    Fixed exact = snapped.value(1.43);
    exact.digits.pop_back();
    exact.error += 0x1p-141;
    F64 result = round(exact, 0.7, exponent, i(0));
    Mask grows = m.ieq(flip, i(0));
    F64 limit = m.select(grows, c(kInfinity), c(0.0));
    result = m.select(beyond, limit, result);
    Mask negativeN = m.ine(down, i(0));
    result = m.select(m.eq(a, c(0.0)),
                      m.select(negativeN, c(kInfinity), c(0.0)), result);
    result = m.select(m.eq(a, c(kInfinity)),
                      m.select(negativeN, c(0.0), c(kInfinity)), result);
    result = m.select(unit, c(1.0), result);
    I64 oddSign = m.shl(n, 63) & m.bits(x);
    result = m.real(m.bits(result) | oddSign);
    return m.select(m.ieq(n, i(0)), c(1.0), keepNaN(x, result));
  }

  //===--------------------------------------------------------------------===//
  // Angles
  //===--------------------------------------------------------------------===//

  F64 sin(F64 x) {
    Angle a = reduce(x);
    return keepZero(x, finite(x, sineOf(a, a.quadrant, signBit(x))));
  }
  F64 cos(F64 x) {
    Angle a = reduce(x);
    return finite(x, sineOf(a, a.quadrant + i(1), i(0)));
  }
  F64 tan(F64 x) {
    Angle a = reduce(x);
    Mask odd = m.ine(a.quadrant & i(1), i(0));
    Fixed sine = sum(7)
                     .plus(a.leading)
                     .minusProduct(a.leading, sineTail(a.square))
                     .value(2.0);
    Fixed cosine = sum(6)
                       .plus(one())
                       .minusProduct(a.square, cosineTail(a.square))
                       .value(1.01);
    Scaled s = normalize(sine, 0.34);
    Scaled t = normalize(cosine, 0.7);
    s.exponent = s.exponent + a.exponent;
    Fixed n = select(odd, t.mantissa, s.mantissa);
    Fixed d = select(odd, s.mantissa, t.mantissa);
    I64 exponent =
        m.iselect(odd, t.exponent - s.exponent, s.exponent - t.exponent);
    Fixed q = multiply(n, reciprocal(d, this->approximate(d), 6), 6);
    I64 sign = m.shl(a.quadrant, 63) ^ (a.sign & i(kSignBit)) ^ signBit(x);
    return keepZero(x, finite(x, round(q, 0.49, exponent, sign)));
  }

  F64 atan(F64 x) {
    F64 a = m.abs(x);
    Mask steep = m.lt(c(1.0), a);
    F64 bounded = m.select(m.lt(a, c(0x1p1023)), a, c(0x1p1023));
    Leading f = leading(bounded);
    // The quotient numerator / denominator is a = |x|, or 1/a for a > 1. The
    // numerator is at most 1 and the denominator is in [1, 2).
    I64 down = i(1023) - f.exponent;
    down = down & (m.sar(down, 63) ^ i(-1));
    F64 inverse = m.real(m.shl(down, 52));
    Fixed denominator = select(steep, f.mantissa, one());
    Fixed numerator =
        sum(6).plusReal(m.select(steep, inverse, a), 7, unit(7)).value(1.01);
    F64 quotient =
        m.select(steep, c(1.0), a) / m.select(steep, bounded, c(1.0));
    Arc arc = arcTangent(numerator, f.mantissa, denominator, quotient);
    Fixed far = sum(6).plus(load(kLongHalfPi, 6)).minus(arc.angle).value(1.58);
    Mask direct = m.both(arc.direct, m.le(a, c(1.0)));
    Fixed flat = select(direct, arc.relative, arc.angle);
    F64 y = round(select(steep, far, flat), 0.06,
                  m.iselect(direct, f.exponent, i(0)), i(0));
    return keepZeroAndNaN(x, m.copysign(y, x));
  }

  F64 asin(F64 x) {
    F64 a = m.abs(x);
    HalfArc h = halfArc(a);
    // pi/4 - h.arc.angle is half of asin(a) for a >= 1/2; round() doubles it.
    Fixed far =
        sum(6).plus(load(kLongQuarterPi, 6)).minus(h.arc.angle).value(0.79);
    Mask direct = m.both(h.arc.direct, h.low);
    Fixed near = select(direct, h.arc.relative, h.arc.angle);
    I64 exponent = m.iselect(h.low, m.iselect(direct, h.exponent, i(0)), i(1));
    F64 y = round(select(h.low, near, far), 0.06, exponent, i(0));
    y = m.select(m.le(a, c(1.0)), y, c(kNaN));
    return keepZero(x, m.copysign(y, x));
  }

  F64 acos(F64 x) {
    F64 a = m.abs(x);
    HalfArc h = halfArc(a);
    I64 negative = m.sar(m.bits(x), 63);
    Mask left = m.ine(negative, i(0));
    // acos(x) is pi/2 minus or plus asin(a) if a < 1/2; otherwise
    // 2 h.arc.angle, or pi - 2 h.arc.angle for a negative x.
    Fixed low = sum(6)
                    .plus(load(kLongHalfPi, 6))
                    .plusSigned(h.arc.angle, negative ^ i(-1))
                    .value(2.1);
    Mask direct =
        m.both(h.arc.direct, m.either(m.lt(x, c(-2.0)), m.lt(c(0.0), x)));
    Fixed high = select(direct, h.arc.relative, h.arc.angle);
    Fixed opposite =
        sum(6).plus(load(kLongHalfPi, 6)).minus(h.arc.angle).value(1.58);
    high = select(left, opposite, high);
    I64 exponent = m.iselect(direct, h.exponent, i(0)) + i(1);
    F64 y = round(select(h.low, low, high), 0.06,
                  m.iselect(h.low, i(0), exponent), i(0));
    y = m.select(m.eq(x, c(1.0)), c(0.0), y);
    return m.select(m.le(a, c(1.0)), y, c(kNaN));
  }

  //===--------------------------------------------------------------------===//
  // Roots
  //===--------------------------------------------------------------------===//

  F64 rsqrt(F64 x) {
    Leading f = leading(x);
    // x = w 4^k with w in [1, 4).
    I64 odd = f.exponent & i(1);
    I64 k = m.sar(f.exponent, 1);
    F64 w = m.real(m.bits(f.real) + m.shl(odd, 52));
    Fixed y = reciprocalRoot(exactReal(w, 3, 4), w, 7);
    F64 result = round(y, 0.49, i(0) - k, i(0));
    F64 zero = m.copysign(c(kInfinity), x);
    result = m.select(m.lt(x, c(kInfinity)), result, c(0.0));
    result = m.select(m.lt(c(0.0), x), result, c(kNaN));
    return m.select(m.eq(x, c(0.0)), zero, result);
  }

  F64 cbrt(F64 x) {
    Leading f = leading(m.abs(x));
    // |x| = w 8^q with w = 2^rest * mantissa in [1, 8). (q is biased by 400.)
    I64 biased = f.exponent + i(1200);
    I64 q = m.shr(biased * i(21846), 16);
    I64 rest = biased - q * i(3);
    F64 w = m.real(m.bits(f.real) + m.shl(rest, 52));
    // r approximates w^(-1/3): a polynomial, then two iterations of third
    // order.
    F64 r = c(kCbrtSeed[5]);
    for (int j = 4; j >= 0; --j)
      r = r * f.real + c(kCbrtSeed[j]);
    r = r * m.select(m.ieq(rest, i(0)), c(1.0),
                     m.select(m.ieq(rest, i(1)), c(0x1.965fea53d6e3dp-1),
                              c(0x1.428a2f98d728bp-1)));
    for (int step = 0; step < 2; ++step) {
      F64 e = c(1.0) - w * r * r * r;
      r = r + r * e * (c(1.0 / 3) + e * c(2.0 / 9));
    }
    // With y slightly below w^(-1/3) and e = 1 - w y^3, which is positive:
    // cbrt(w) = w y^2 (1 - e)^(-2/3).
    Fixed y = exactReal(r * c(1 - 0x1p-46), 2, 1.01);
    Fixed v = exactReal(w, 3, 8);
    Fixed square = multiply(y, y, 4);
    Fixed vSquare = multiply(v, square, 7);
    Fixed e = sum(7).plus(one()).minusProduct(vSquare, y).value(0x1p-43);
    Fixed s = sum(7)
                  .plus(load(kLongFiveNinths, 7))
                  .plusProduct(e, load(kLongFortyEightyFirsts, 7))
                  .value(0.6);
    s = sum(7).plus(load(kLongTwoThirds, 7)).plusProduct(e, s).value(0.7);
    s = multiply(e, s, 7);
    Fixed root = sum(7).plus(vSquare).plusProduct(vSquare, s).value(2.01);
    root.error += 0x1p-172;
    F64 result = round(root, 0.99, q - i(400), i(0));
    Mask ordinary = m.both(m.unequal(x, c(0.0)), m.lt(m.abs(x), c(kInfinity)));
    return m.select(ordinary, m.copysign(result, x), x);
  }

private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  static constexpr double kLargest = std::numeric_limits<double>::max();

  Fixed one() { return load(kLongOne, 0); }

  /// Returns x clamped to [low, high]. A NaN becomes one of the bounds.
  F64 clamp(F64 x, double low, double high) {
    x = m.select(m.lt(x, c(high)), x, c(high));
    return m.select(m.lt(c(low), x), x, c(low));
  }
  F64 keepNaN(F64 x, F64 y) { return m.select(m.unequal(x, x), x, y); }
  F64 keepZero(F64 x, F64 y) { return m.select(m.eq(x, c(0.0)), x, y); }
  F64 keepZeroAndNaN(F64 x, F64 y) {
    return m.select(m.both(m.eq(x, x), m.unequal(x, c(0.0))), y, x);
  }
  F64 finite(F64 x, F64 y) {
    return m.select(m.lt(m.abs(x), c(kInfinity)), y, c(kNaN));
  }
  I64 signBit(F64 x) { return m.bits(x) & i(kSignBit); }

  /// |x| = mantissa * 2^exponent with mantissa in [1, 2). For x = 0 the
  /// mantissa is 1 too. `real` is the mantissa as an f64.
  struct Leading {
    F64 real;
    Fixed mantissa;
    I64 exponent;
  };
  Leading leading(F64 x) {
    F64 a = m.abs(x);
    Mask tiny = m.lt(a, c(0x1p-1000));
    I64 b = m.bits(m.select(tiny, a * c(0x1p64), a));
    F64 real = m.real((b & i(kMantissaMask)) | i(kOneBits));
    I64 exponent = m.shr(b, 52) - m.iselect(tiny, i(1023 + 64), i(1023));
    return {real, exactReal(real, 2, 2), exponent};
  }

  /// x = n log(2) + r with |r| <= log(2)/2. `sign` is -1 if r is negative,
  /// otherwise 0.
  struct Power {
    I64 n;
    I64 sign;
    Fixed a;    ///< |r|
    Fixed sinh; ///< sinh(a) / a
    Fixed cosh; ///< (cosh(a) - 1) / a^2 * a
    Fixed square;
  };
  Power powerOfE(F64 x) {
    F64 t = x * c(kLog2E) + c(kRoundShift);
    I64 n = m.bits(t) - i(kRoundShiftBits);
    Sum remainder = sum(7);
    remainder.plusReal(x, 8, unit(8));
    remainder.plusMultiple(i(0) - n, load(kLongLn2, 8), 1077);
    I64 sign;
    Fixed a = remainder.magnitude(0.34658, sign);
    return powerOf(a, sign, n);
  }
  Power powerOf(const Fixed &a, I64 sign, I64 n) {
    Fixed z = multiply(a, a, 6);
    Fixed odd = series(kLongInverseFactorial, 3, 2, 16, z, 3, false, 6);
    odd.error += 0x1p-170;
    Fixed even = series(kLongInverseFactorial, 2, 2, 16, z, 3, false, 6);
    even.error += 0x1p-170;
    Fixed sinh = sum(6).plus(one()).plusProduct(z, odd).value(1.03);
    return {n, sign, a, sinh, multiply(a, even, 6), z};
  }
  /// e^r
  Fixed power(const Power &p) { return power(p, p.sign); }
  /// e^-r
  Fixed inversePower(const Power &p) { return power(p, p.sign ^ i(-1)); }
  Fixed power(const Power &p, I64 sign) {
    Sum s = sum(6);
    s.plus(one()).plusProduct(p.a, p.cosh);
    s.plusSigned(multiply(p.a, p.sinh, 6), sign);
    return s.value(1.42);
  }
  /// Returns 2^n for n <= 0. If 2^n is below 2^-190, returns some value below
  /// 2^-190.
  Fixed powerOfTwo(I64 n) {
    I64 over = n + i(200);
    n = n - (over & m.sar(over, 63));
    return sum(7)
        .plusReal(m.real(m.shl(n + i(1023), 52)), 8, unit(8))
        .value(1.01);
  }
  /// Returns 2^-2n for n >= 0.
  Fixed inverseSquare(I64 n) { return powerOfTwo(i(0) - (n + n)); }

  /// x = 2^k * (1 + f + low), with 1 + f in [sqrt(1/2), sqrt(2)).
  struct Binade {
    I64 k;
    F64 f, low;
  };
  Binade binade(F64 x) {
    Mask tiny = m.lt(x, c(0x1p-1000));
    I64 b = m.bits(m.select(tiny, x * c(0x1p64), x));
    I64 above = b + i(kOneBits - 0x3fe6a09e667f3bcd);
    I64 k = m.shr(above, 52) - m.iselect(tiny, i(1023 + 64), i(1023));
    F64 mantissa = m.real(b - (above & i(~kMantissaMask)) + i(kOneBits));
    return {k, mantissa - c(1.0), c(0.0)};
  }

  /// log(x) for a Binade: k log(2) + log(1 + f + low). The magnitude of the
  /// second logarithm is factor * magnitude, and also factor * leading *
  /// 2^exponent if low = 0.
  struct Logarithm {
    I64 k;
    F64 f;
    I64 sign; ///< of the logarithm without k
    I64 exponent;
    Fixed leading, magnitude, factor;
  };
  Logarithm logarithm(Binade b) {
    I64 sign;
    Fixed f = sum(6)
                  .plusReal(b.f, 7, unit(7))
                  .plusReal(b.low, 7, unit(7))
                  .magnitude(0.42, sign);
    Fixed d = sum(6)
                  .plus(this->load(kLongOne, 0))
                  .plus(one())
                  .plusSigned(f, sign)
                  .value(2.5);
    // `half` is (2 + f) / 2, in [0.85, 1.21).
    Fixed half = shiftRight(d, 1, 6);
    Fixed r = reciprocal(half, b.f * c(0.5) + c(1.0), 6);
    // With s = f / (2 + f): log(1 + f) = 2 atanh(s).
    Fixed s = shiftRight(multiply(f, r, 6), 1, 6);
    s.bound = 0.1716;
    Fixed z = multiply(s, s, 6);
    Fixed tail = series(kLongInverseOdd, 1, 1, 32, z, 5, false, 6);
    tail.error += 0x1p-168;
    Fixed factor =
        sum(6).plus(r).plusProduct(r, multiply(z, tail, 6)).value(1.25);
    Leading l = leading(b.f);
    return {b.k, b.f, sign, l.exponent, l.mantissa, f, factor};
  }
  /// Returns k * step + log(1 + f + low) * scale, rounded to f64; a null
  /// `scale` means 1.
  F64 roundLog(const Logarithm &l, const LongConstant &step,
               const LongConstant *scale) {
    Mask near = m.ieq(l.k, i(0));
    Fixed product = multiply(select(near, l.leading, l.magnitude), l.factor, 6);
    if (scale)
      product = multiply(product, load(*scale, 7), 6);
    I64 side = m.sar(l.k, 63);
    // The sign is taken from f, because the digits of a tiny f may all be zero.
    I64 sign = m.iselect(near, m.bits(l.f), side);
    Fixed far = sum(6)
                    .plusMultiple(negateIf(side, l.k), load(step, 7), 1100)
                    .plusSigned(product, l.sign ^ side)
                    .value(1100);
    Fixed value = select(near, product, far);
    F64 y = round(value, 0.1, m.iselect(near, l.exponent, i(0)),
                  sign & i(kSignBit));
    return m.select(m.both(near, m.eq(l.f, c(0.0))), c(0.0), y);
  }
  I64 smaller(I64 n, int64_t most) {
    I64 rest = i(most) - n;
    return n + (rest & m.sar(rest, 63));
  }
  /// A number `total` in [1.4, 4.3] as 2^k (1 + t) / (1 - t). s is |t|; `sign`
  /// is -1 if t is negative, otherwise 0.
  struct AreaSum {
    I64 k, sign;
    Fixed s;
  };
  AreaSum logarithmOf(const Fixed &total, F64 real) {
    Mask large = m.le(c(2.83), real);
    I64 k = m.iselect(large, i(2), i(1));
    Fixed power = sum(0).plusMultiple(k + k, one(), 4).value(4.1);
    AreaSum result{k, {}, {}};
    Fixed difference =
        shiftRight(absoluteDifference(total, power, result.sign), 1, 7);
    Fixed d = shiftRight(sum(7).plus(total).plus(power).value(8.4), 2, 7);
    F64 realD = (real + m.select(large, c(4.0), c(2.0))) * c(0.25);
    result.s =
        shiftRight(multiply(difference, reciprocal(d, realD, 7), 7), 1, 7);
    return result;
  }
  /// Returns |a - b|. Sets `sign` to -1 if a < b, else to 0.
  Fixed absoluteDifference(const Fixed &a, const Fixed &b, I64 &sign) {
    // Computes an eighth of the difference, which is below 1 as magnitude()
    // requires.
    Fixed x = shiftRight(a, 3, 7), y = shiftRight(b, 3, 7);
    Fixed eighth = sum(7).plus(x).minus(y).magnitude(0.17, sign);
    return sum(7).plusMultiple(i(8), eighth, 8).value(1.3);
  }
  /// With T = atanh(s) / s: returns leading * T in lanes where `direct` holds.
  /// In other lanes, returns k log(2) / 2 + s T, or k log(2) / 2 - s T if
  /// `sign` is -1.
  Fixed areaOf(Mask direct, const Fixed &leading, const Fixed &s, I64 k,
               I64 sign) {
    Fixed z = multiply(s, s, 6);
    Fixed tail = series(kLongInverseOdd, 1, 1, 37, z, 4.5, false, 6);
    tail.error += 0x1p-168;
    Fixed factor = sum(6).plus(one()).plusProduct(z, tail).value(1.02);
    Fixed product = multiply(select(direct, leading, s), factor, 6);
    Fixed far = sum(6)
                    .plusMultiple(k, load(kLongHalfLn2, 7), 1100)
                    .plusSigned(product, sign)
                    .value(400);
    return select(direct, product, far);
  }
  /// Returns table[j]; j must be within the table.
  template <size_t n>
  Fixed choose(const LongConstant (&table)[n], I64 j) {
    std::vector<Fixed> rest;
    for (const LongConstant &value : table)
      rest.push_back(load(value, 7));
    for (int bit = 0; rest.size() > 1; ++bit) {
      Mask set = m.ine(j & i(int64_t(1) << bit), i(0));
      std::vector<Fixed> half;
      for (size_t k = 0; k < rest.size(); k += 2)
        half.push_back(k + 1 < rest.size() ? select(set, rest[k + 1], rest[k])
                                           : rest[k]);
      rest = std::move(half);
    }
    return rest.front();
  }
  /// Returns e^a, or e^-a if `sign` is -1. a is at most 0.7501.
  Fixed smallPower(const Fixed &a, I64 sign) {
    Fixed z = multiply(a, a, 6);
    Fixed odd = series(kLongInverseFactorial, 1, 2, 20, z, 0.8, false, 6);
    Fixed even = series(kLongInverseFactorial, 2, 2, 20, z, 0.8, false, 6);
    odd.error += 0x1p-175;
    even.error += 0x1p-175;
    return sum(6)
        .plus(one())
        .plusProduct(z, even)
        .plusSigned(multiply(a, odd, 6), sign)
        .value(2.2);
  }

  /// Returns y if x is above the pole and finite; otherwise the value of a
  /// logarithm at x: -infinity at the pole, NaN below it, and x if infinite or
  /// NaN.
  F64 logSpecial(F64 x, double pole, F64 y) {
    F64 above = m.select(m.lt(x, c(kInfinity)), y, x);
    F64 other = m.select(m.eq(x, c(pole)), c(-kInfinity), c(kNaN));
    return m.select(m.lt(c(pole), x), above, other);
  }

  /// |x| = (quadrant + r) pi/2 with |r| <= 1/2. leading * 2^exponent is |r|
  /// pi/2.
  struct Angle {
    I64 quadrant;
    I64 sign; ///< of r, 0 or -1
    Fixed leading;
    I64 exponent;
    Fixed square; ///< (r pi/2)^2
  };
  Angle reduce(F64 x) {
    constexpr int kWindow = 9;
    F64 a = m.abs(x);
    Mask direct = m.le(a, c(0x1.921fb54442d18p-1));
    Leading f = leading(a);
    // |x| = v * 2^(28 (q - 1)), where v has three digits of 28 bits. q is in
    // [0, 37] where it is used.
    I64 q = m.shr((f.exponent + i(28)) * i(2341), 16) & i(63);
    F64 v =
        m.real(m.bits(f.real) + m.shl(f.exponent - (q - i(1)) * i(kBits), 52));
    v = m.select(direct, c(1.0), v);
    // `window` has digits q - 3 to q + 9 of 2 / pi. Digits before the point are
    // 0.
    std::vector<I64> window(4, i(0));
    for (uint32_t digit : kTwoOverPiDigits)
      window.push_back(i(digit));
    for (int bit = 5; bit >= 0; --bit) {
      Mask set = m.ine(q & i(int64_t(1) << bit), i(0));
      int size = kWindow + 4 + (1 << bit) - 1;
      for (int j = 0; j < size; ++j) {
        int far = j + (1 << bit);
        window[j] = m.iselect(
            set, far < int(window.size()) ? window[far] : i(0), window[j]);
      }
      window.resize(size);
    }
    Sum turns = sum(kWindow);
    // The product v * 2 / pi counts quarter turns. Multiples of 2^28 quarter
    // turns are left out.
    F64 rest = v;
    for (int digit = 0; digit < 3; ++digit) {
      F64 t = rest + c(kRoundShift);
      I64 d = m.bits(t) - i(kRoundShiftBits);
      rest = (rest - (t - c(kRoundShift))) * c(0x1p28);
      for (int index = 0; index <= kWindow + 1; ++index)
        turns.add(index, d * window[index - digit + 2]);
    }
    turns.plusReal(c(0.5), 1, 4 * unit(kWindow));
    Fixed y = turns.value(0x1p28);
    I64 quadrant = y.digits[0];
    // r is the fraction minus 1/2 (1/2 was added to the product above).
    Sum fraction = sum(kWindow);
    for (int index = 1; index <= kWindow; ++index)
      fraction.add(index, y.at(index));
    I64 half = i(int64_t(1) << (kBits - 1));
    fraction.add(1, i(0) - half);
    fraction.plusMultiple(i(0), y, 1);
    I64 sign;
    Fixed r = fraction.magnitude(0.5, sign);
    Scaled s = normalize(r, 0x1p-63);
    Fixed scaled = multiply(s.mantissa, load(kLongHalfPi, 7), 7);
    Fixed angle = multiply(r, load(kLongHalfPi, 7), 6);
    Fixed tiny =
        sum(6).plusReal(m.select(direct, a, c(0.0)), 7, unit(7)).value(0.7854);
    Fixed magnitude = select(direct, tiny, angle);
    magnitude.bound = 0.7854;
    Angle result;
    result.quadrant = m.iselect(direct, i(0), quadrant);
    result.sign = m.iselect(direct, i(0), sign);
    result.leading = select(direct, f.mantissa, scaled);
    result.exponent = m.iselect(direct, f.exponent, s.exponent);
    result.square = multiply(magnitude, magnitude, 6);
    return result;
  }
  /// Returns 1 - sin(r) / r for z = r^2.
  Fixed sineTail(const Fixed &z) {
    Fixed tail = series(kLongInverseFactorial, 3, 2, 20, z, 0, true, 6);
    tail.error += 0x1p-174;
    return multiply(z, tail, 6);
  }
  /// Returns (1 - cos(r)) / r^2 for z = r^2.
  Fixed cosineTail(const Fixed &z) {
    Fixed tail = series(kLongInverseFactorial, 2, 2, 20, z, 0, true, 6);
    tail.error += 0x1p-174;
    return tail;
  }
  /// Returns the sine of the angle r pi/2 plus `quadrant` quarter turns, with
  /// its sign changed if `sign` is the sign bit.
  F64 sineOf(const Angle &a, I64 quadrant, I64 sign) {
    Mask odd = m.ine(quadrant & i(1), i(0));
    Fixed p = this->seriesOf(
        [&](int k) {
          return select(odd, load(kLongInverseFactorial[2 * k + 2], 6),
                        load(kLongInverseFactorial[2 * k + 3], 6));
        },
        20, a.square, true, [](int) { return 6; });
    p.error += 0x1p-174;
    p = multiply(a.square, p, 6);
    Fixed base = select(odd, one(), a.leading);
    Fixed y = sum(7).plus(base).minusProduct(base, p).value(2.0);
    I64 turned = a.sign & i(kSignBit);
    turned = m.iselect(odd, i(0), turned);
    sign = sign ^ turned ^ (m.shl(quadrant, 62) & i(kSignBit));
    return round(y, 0.34, m.iselect(odd, i(0), a.exponent), sign);
  }

  /// `angle` is atan(n / d) to within 2^-150, for n in [0, 1], d in [1, 2) and
  /// n <= d. In lanes where `direct` holds (n / d is small), `relative` is
  /// angle * leading / n, where `leading` is n without its power of two.
  struct Arc {
    Fixed angle, relative;
    Mask direct;
  };
  Arc arcTangent(const Fixed &n, const Fixed &leading, const Fixed &d,
                 F64 quotient) {
    // atan(n / d) = atan(j / 8) + atan((8 n - j d) / (8 d + j n)).
    F64 t = quotient * c(8.0) + c(kRoundShift);
    I64 j = m.bits(t) - i(kRoundShiftBits);
    Mask direct = m.ieq(j, i(0));
    Fixed sixteenth = shiftRight(d, 4, 7);
    Fixed nSixteenth = shiftRight(n, 4, 7);
    I64 sign;
    Fixed top = sum(7)
                    .plus(shiftRight(n, 1, 7))
                    .plusMultiple(i(0) - j, sixteenth, 8)
                    .magnitude(0.13, sign);
    Fixed bottom = sum(7)
                       .plus(shiftRight(d, 1, 7))
                       .plusMultiple(j, nSixteenth, 8)
                       .value(1.51);
    F64 real = this->wholeReal(bottom.digits[0]) +
               this->wholeReal(bottom.digits[1]) * c(0x1p-28) +
               this->wholeReal(bottom.digits[2]) * c(0x1p-56);
    Fixed r = reciprocal(bottom, real, 6);
    Fixed u = multiply(top, r, 6);
    u.bound = 0.0626;
    Fixed z = multiply(u, u, 6);
    Fixed tail = series(kLongInverseOdd, 1, 1, 21, z, 7.9, true, 6);
    tail.error += 0x1p-170;
    tail = multiply(z, tail, 6);
    Fixed arc = sum(6).plus(u).minusProduct(u, tail).value(0.0626);
    Fixed step = load(kLongArcTangent[0], 6);
    for (int k = 1; k <= 8; ++k)
      step = select(m.ieq(j, i(k)), load(kLongArcTangent[k], 6), step);
    Fixed far = sum(6).plus(step).plusSigned(arc, sign).value(0.8);
    Fixed v = multiply(shiftRight(leading, 1, 7), r, 6);
    Fixed relative = sum(6).plus(v).minusProduct(v, tail).value(2.02);
    return {far, relative, direct};
  }

  /// For a < 1/2 (`low`), the arc is asin(a) = atan(a / sqrt(1 - a^2)).
  /// Otherwise it is half of acos(a): atan(sqrt((1 - a) / (1 + a))).
  struct HalfArc {
    Mask low;
    Arc arc;
    I64 exponent; ///< of arc.relative
  };
  HalfArc halfArc(F64 a) {
    Mask low = m.lt(a, c(0.5));
    a = m.select(m.lt(a, c(1.0)), a, c(1.0));
    Leading small = leading(a);
    // 1 - a = g 4^k with g in [1, 4).
    Leading rest = leading(c(1.0) - a);
    I64 odd = rest.exponent & i(1);
    I64 k = m.sar(rest.exponent, 1);
    F64 g = m.real(m.bits(rest.real) + m.shl(odd, 52));
    Fixed fixedG = exactReal(g, 3, 4);
    Fixed fixedA = sum(7).plusReal(a, 8, unit(8)).value(1.01);
    Fixed onePlus = sum(7).plus(one()).plus(fixedA).value(2.01);
    Fixed square = sum(7).plus(one()).minusProduct(fixedA, fixedA).value(1.01);
    Fixed w = select(low, square, multiply(fixedG, onePlus, 7));
    F64 real = m.select(low, c(1.0) - a * a, g * (c(1.0) + a));
    Fixed root = reciprocalRoot(w, real, 7);
    // The tangent of the arc is a / sqrt(1 - a^2), or 2^k g / sqrt(g (1 + a)).
    // `lead` is the tangent without the power of two.
    Fixed lead = multiply(select(low, small.mantissa, fixedG), root, 7);
    lead.bound = 2.4;
    F64 scale = m.real(m.shl(k + i(1023), 52));
    scale = m.select(low, c(0.0), scale);
    Fixed shifted = sum(7).plusReal(scale, 8, unit(8)).value(1.01);
    Fixed tangent =
        select(low, multiply(fixedA, root, 7), multiply(lead, shifted, 7));
    tangent.bound = 0.58;
    F64 quotient =
        m.select(low, a, c(1.0) - a) /
        m.sqrt(m.select(low, c(1.0) - a * a, (c(1.0) + a) * (c(1.0) - a)));
    F64 one = c(1.0);
    quotient = m.select(m.lt(a, one), quotient, c(0.0));
    Arc arc = arcTangent(tangent, lead, this->one(), quotient);
    return {low, arc, m.iselect(low, small.exponent, k)};
  }
};

} // namespace mlir::repro::functions

#endif // REPRO_CODEGEN_FUNCTIONS_DOUBLEFORMULAS_H
