//===- Formulas.h - Formulas of the f32 functions ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// See https://llvm.org/LICENSE.txt for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The correctly rounded f32 functions (S5). They are written once, over a class
// M (the machine) with the types F32, F64, I64 and Mask and a few operations on
// them. The compiler's machine emits operations (ElementaryFunctions.cpp); the
// checker's machine (tools/functions) computes values.
//
// Most functions compute an f64 that rounds to the correct f32. For each
// function, docs/reference/functions.md describes the method, the error bound
// and the number of checked inputs.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_FUNCTIONS_FORMULAS_H
#define REPRO_CODEGEN_FUNCTIONS_FORMULAS_H

#include "Coefficients.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>

namespace mlir::repro::functions {

/// The f32 functions. M is the machine on which they compute.
template <typename M>
class Formulas {
public:
  using F32 = typename M::F32;
  using F64 = typename M::F64;
  using I64 = typename M::I64;
  using Mask = typename M::Mask;

  explicit Formulas(M &machine) : m(machine) {}

  //===--------------------------------------------------------------------===//
  // Exponentials
  //===--------------------------------------------------------------------===//

  F32 exp(F32 x) {
    Scaled s = reduceExp(m.widen(clamp(x, -104.0f, 89.0f)));
    F64 p = m.fma(polynomial(kExp, s.r), s.r * s.r, one() + s.r);
    return patched(kExpPatches, x, m.narrow(p * powerOfTwo(s.t)));
  }

  F32 exp2(F32 x) {
    F64 y = exp2Of(m.widen(clamp(x, -151.0f, 129.0f)));
    return patched(kExp2Patches, x, m.narrow(y));
  }

  F32 exp10(F32 x) {
    F64 w = m.widen(clamp(x, -46.0f, 39.0f));
    F64 t = m.fma(w, c(kLog2Of10Hi), c(kRoundShift));
    F64 n = t - c(kRoundShift);
    F64 r = m.fma(n, c(-kLog10Of2Hi), w);
    r = m.fma(n, c(-kLog10Of2Lo), r);
    F64 p = m.fma(polynomial(kExp10, r), r, one());
    return patched(kExp10Patches, x, m.narrow(p * powerOfTwo(t)));
  }

  F32 expm1(F32 x) {
    F64 y = expm1Of(m.widen(clamp(x, -104.0f, 89.0f)), kExpm1);
    return m.copysign(patched(kExpm1Patches, x, m.narrow(y)), x);
  }

  F32 tanh(F32 x) {
    F64 w = m.widen(clamp(x, -10.0f, 10.0f));
    F64 e = expm1Of(w + w, kTanh);
    F32 y = patched(kTanhPatches, m.abs(x), m.narrow(e / (e + c(2.0))));
    return m.copysign(y, x);
  }

  F32 sinh(F32 x) {
    F64 w = m.widen(clamp(x, -90.0f, 90.0f));
    Hyperbolic h = hyperbolic(w, kSinhOdd, kSinhEven);
    F64 y = h.sinhN + m.fma(h.sinhN, h.coshR, h.coshN * h.sinhR);
    return m.copysign(patched(kSinhPatches, m.abs(x), m.narrow(y)), x);
  }

  F32 cosh(F32 x) {
    F64 w = m.widen(clamp(x, -90.0f, 90.0f));
    Hyperbolic h = hyperbolic(w, kCoshOdd, kCoshEven);
    F64 y = h.coshN + m.fma(h.coshN, h.coshR, h.sinhN * h.sinhR);
    return patched(kCoshPatches, m.abs(x), m.narrow(y));
  }

  //===--------------------------------------------------------------------===//
  // Logarithms
  //===--------------------------------------------------------------------===//

  F32 log(F32 x) {
    Binade b = binade(m.widen(x));
    F64 f = b.m - one();
    // kLog is tuned for this formula, which rounds twice; sum() would round
    // once.
    F64 y = m.fma(b.k, c(kLn2Hi), f) + logTail(f, kLog, b.k * c(kLogLn2[0]));
    return logSpecial(x, 0.0f, patched(kLogPatches, x, m.narrow(y)));
  }

  F32 log2(F32 x) {
    Binade b = binade(m.widen(x));
    F32 y = m.narrow(log2Of(b, b.m - one()));
    return logSpecial(x, 0.0f, patched(kLog2Patches, x, y));
  }

  F32 log10(F32 x) {
    Binade b = binade(m.widen(x));
    F64 f = b.m - one();
    F64 low = m.fma(f, c(kLog10EShortLo), logTail(f, kLog10) * c(kLog10E));
    low = m.fma(b.k, c(kLog10Of2ShortLo), low);
    F64 y = sum(b.k * c(kLog10Of2ShortHi), f * c(kLog10EShortHi), low);
    return logSpecial(x, 0.0f, patched(kLog10Patches, x, m.narrow(y)));
  }

  F32 log1p(F32 x) {
    F64 w = m.widen(x);
    Binade b = binade(w + one());
    // For k = 0, f is x itself. Otherwise 1 + x is exact, or the lost bits do
    // not affect the result.
    F64 f = m.select(m.eq(b.k, c(0.0)), w, b.m - one());
    F64 low = logTail(f, kLog1p, b.k * c(kLog1pLn2[0]));
    F64 y = sum(b.k * c(kLn2ShortHi), f, low);
    F32 result = patched(kLog1pPatches, x, m.narrow(y));
    return m.copysign(logSpecial(x, -1.0f, result), x);
  }

  F32 asinh(F32 x) {
    F64 a = m.widen(m.abs(x));
    F64 w = m.sqrt(m.fma(a, a, one()));
    Binade b = binade(a + w);
    // asinh(a) = 2 atanh(s). For k = 0, s = tanh(asinh(a) / 2) = a / (1 + w).
    Mask small = m.eq(b.k, c(0.0));
    F64 f = m.select(small, a, b.m - one());
    F64 s = f / m.select(small, w + one(), b.m + one());
    F32 y = m.narrow(logOfQuotient(b.k, s, kAsinh));
    y = patched(kAsinhPatches, m.abs(x), y);
    y = m.select(m.lt(m.abs(x), s32(kInfinity)), y, x);
    return m.copysign(y, x);
  }

  F32 acosh(F32 x) {
    F64 a = m.widen(x);
    F64 w = m.sqrt(m.fma(a, a, c(-1.0)));
    Binade b = binade(a + w);
    // acosh(x) = 2 atanh(s). For k = 0, s = tanh(acosh(x) / 2) = w / (1 + x).
    Mask small = m.eq(b.k, c(0.0));
    F64 f = m.select(small, w, b.m - one());
    F64 s = f / m.select(small, a + one(), b.m + one());
    F32 y = m.narrow(logOfQuotient(b.k, s, kAcosh));
    y = patched(kAcoshPatches, x, y);
    y = m.select(m.lt(x, s32(kInfinity)), y, x);
    return m.select(m.lt(x, s32(1.0f)), s32(kNaN), y);
  }

  F32 atanh(F32 x) {
    F64 a = m.widen(m.abs(x));
    F64 n = one() + a;
    F64 d = one() - a;
    // (1 + a) / (1 - a) = 2^k * q with q close to 1.
    I64 k = m.shr(m.bits(n) - m.bits(d) + i(int64_t(1) << 51), 52);
    F64 d2 = m.real(m.bits(d) + m.shl(k, 52));
    F64 kf = m.real(k + i(kRoundShiftBits)) - c(kRoundShift);
    Mask small = m.eq(kf, c(0.0));
    F64 f = m.select(small, a + a, n - d2);
    F64 s = f / m.select(small, c(2.0), n + d2);
    F64 z = s * s;
    F64 low = m.fma(kf, c(kLn2ShortLo), s * z * polynomial(kAtanh, z));
    F64 y = sum(kf * c(kLn2ShortHi), s + s, low) * c(0.5);
    F32 result = patched(kAtanhPatches, m.abs(x), m.narrow(y));
    F32 beyond = m.select(m.eq(m.abs(x), s32(1.0f)), s32(kInfinity), s32(kNaN));
    result = m.select(m.lt(m.abs(x), s32(1.0f)), result, beyond);
    return m.copysign(result, x);
  }

  //===--------------------------------------------------------------------===//
  // Trigonometry
  //===--------------------------------------------------------------------===//

  F32 sin(F32 x) {
    F64 w = m.widen(x);
    F64 t = m.fma(w, c(kInvPi), c(kRoundShift));
    F64 n = t - c(kRoundShift);
    F64 r = m.fma(n, c(-kPiHi), w);
    r = m.fma(n, c(-kPiLo), r);
    F32 y = m.narrow(sinOfHalfTurns(w, {r, t}, 0, kSin));
    y = m.select(m.eq(x, s32(0.0f)), x, y);
    return patched(kSinPatches, x, y);
  }

  F32 cos(F32 x) {
    // cos x = sin(x + pi/2), so n is a whole number plus one half here.
    F64 a = m.widen(m.abs(x));
    F64 t = m.fma(a, c(kInvPi), c(0.5)) + c(kRoundShift);
    F64 n = (t - c(kRoundShift)) - c(0.5);
    F64 r = m.fma(n, c(-kPiHi), a);
    r = m.fma(n, c(-kPiLo), r);
    F32 y = m.narrow(sinOfHalfTurns(a, {r, t}, 1, kCos));
    return patched(kCosPatches, m.abs(x), y);
  }

  F32 tan(F32 x) {
    F64 w = m.widen(x);
    F64 t = m.fma(w, c(kTwoOverPi), c(kRoundShift));
    F64 n = t - c(kRoundShift);
    F64 r = m.fma(n, c(-kHalfPiHi), w);
    r = m.fma(n, c(-kHalfPiLo), r);
    Turn turn = ifHuge(w, {r, t}, 1, 0);
    F64 z = turn.r * turn.r;
    F64 s = m.fma(turn.r * z, polynomial(kTanSin, z), turn.r);
    F64 v = m.fma(z, polynomial(kTanCos, z), one());
    I64 odd = m.shl(m.bits(turn.t), 63);
    Mask swap = m.ine(odd, i(0));
    F64 y = m.select(swap, v, s) / m.select(swap, s, v);
    F32 result = m.narrow(m.real(m.bits(y) ^ odd));
    result = m.select(m.eq(x, s32(0.0f)), x, result);
    return patched(kTanPatches, x, result);
  }

  F32 asin(F32 x) {
    F64 a = m.widen(m.abs(x));
    Mask big = m.lt(c(0.5), a);
    F64 z = m.select(big, m.fma(a, c(-0.5), c(0.5)), a * a);
    F64 w = m.select(big, m.sqrt(z), a);
    F64 tail = w * z * polynomial(kAsin, z);
    F64 y = sum(c(kHalfPiHi), c(-2.0) * w, m.fma(tail, c(-2.0), c(kHalfPiLo)));
    F32 result = m.narrow(m.select(big, y, w + tail));
    return m.copysign(patched(kAsinPatches, m.abs(x), result), x);
  }

  F32 acos(F32 x) {
    F64 v = m.widen(x);
    F64 a = m.abs(v);
    Mask big = m.lt(c(0.5), a);
    Mask negative = m.lt(v, c(0.0));
    F64 z = m.select(big, m.fma(a, c(-0.5), c(0.5)), a * a);
    F64 w = m.select(big, m.sqrt(z), v);
    F64 e = m.select(big, m.select(negative, c(-2.0), c(2.0)), c(-1.0));
    F64 base =
        m.select(big, m.select(negative, c(kPiHi), c(0.0)), c(kHalfPiHi));
    F64 low = m.select(big, m.select(negative, c(kPiLo), c(0.0)), c(kHalfPiLo));
    w = e * w;
    F64 y = sum(base, w, m.fma(w * z, polynomial(kAcos, z), low));
    return patched(kAcosPatches, x, m.narrow(y));
  }

  F32 atan(F32 x) {
    F64 a = m.widen(m.abs(x));
    Mask middle = m.lt(c(kTanPi8), a);
    Mask high = m.lt(c(kTanThreePi8), a);
    F64 n = m.select(high, c(-1.0), m.select(middle, a - one(), a));
    F64 d = m.select(high, a, m.select(middle, a + one(), one()));
    F64 base =
        m.select(high, c(kHalfPiHi), m.select(middle, c(kQuarterPiHi), c(0.0)));
    F64 low =
        m.select(high, c(kHalfPiLo), m.select(middle, c(kQuarterPiLo), c(0.0)));
    F64 q = n / d;
    F64 z = q * q;
    F64 y = sum(base, q, m.fma(q * z, polynomial(kAtan, z), low));
    return m.copysign(patched(kAtanPatches, m.abs(x), m.narrow(y)), x);
  }

  //===--------------------------------------------------------------------===//
  // Error function
  //===--------------------------------------------------------------------===//

  F32 erf(F32 x) {
    // From 3.92 on, the result rounds to 1.
    F64 a = m.widen(clamp(x, -3.92f, 3.92f));
    F64 p = polynomial(kErf, m.fma(a, a, c(-7.6875)));
    return patched(kErfPatches, x, m.narrow(a * p));
  }

  F32 erfc(F32 x) {
    F64 v = m.widen(x);
    F64 z = v * v;
    // For |x| < 1/2, computes 1 - erf(x).
    F64 small =
        m.fma(v * z, polynomial(kErfcSmall, z), v * c(kTwoOverSqrtPiLo));
    small = one() - m.fma(v, c(kTwoOverSqrtPiHi), small);
    // For other x, computes e^(-x^2) * erfcx(|x|).
    F64 a = m.abs(m.widen(clamp(x, -10.1f, 10.1f)));
    Scaled s = reduceExp(-(a * a));
    F64 e = m.fma(m.fma(polynomial(kErfcExp, s.r), s.r, one()), s.r, one());
    F64 q = one() / (a + c(4.0));
    F64 t = m.fma(q, c(-8.0), one());
    F64 y = polynomial(kErfcx, t) * q * e * powerOfTwo(s.t);
    y = m.select(m.lt(v, c(0.0)), c(2.0) - y, y);
    y = m.select(m.lt(a, c(0.5)), small, y);
    return patched(kErfcPatches, x, m.narrow(y));
  }

  //===--------------------------------------------------------------------===//
  // Roots
  //===--------------------------------------------------------------------===//

  F32 rsqrt(F32 x) {
    // Refines an f32 estimate by one step of third order. e = 1 - x * y * y is
    // small.
    F32 estimate = m.rsqrtEstimate(x);
    F64 y = m.widen(estimate);
    F64 e = m.fma(-(y * y), m.widen(x), one());
    F32 refined = m.narrow(m.fma(y * e, m.fma(e, c(0.375), c(0.5)), y));
    // For 0, infinity and negative x, `refined` is a NaN and the estimate is
    // the correct result.
    refined = m.select(m.eq(refined, refined), refined, estimate);
    return patched(kRsqrtPatches, x, refined);
  }

  F32 cbrt(F32 x) {
    I64 b = m.bits(m.widen(m.abs(x)));
    // |x| = mantissa * 2^(biased - 150) with biased = 3 q + rest.
    I64 biased = m.shr(b, 52) - i(1023 - 150);
    I64 q = m.shr(biased * i(21846), 16);
    I64 rest = biased - q * i(3);
    F64 mantissa = m.real((b & i(kMantissaMask)) | i(kOneBits));
    F64 r = polynomial(kCbrtSeed, mantissa);
    F64 s = mantissa * r * r;
    F64 e = m.fma(-s, r, one());
    F64 p = m.fma(e, c(40.0 / 81.0), c(5.0 / 9.0));
    p = m.fma(p, e, c(2.0 / 3.0));
    F64 y = m.fma(s * e, p, s);
    Mask rest1 = m.ieq(rest, i(1));
    Mask rest0 = m.ieq(rest, i(0));
    y = y *
        m.select(rest0, one(), m.select(rest1, c(kCubeRoot2), c(kCubeRoot4)));
    F64 scaled = m.real(m.bits(mantissa) + m.shl(rest, 52));
    // One Newton step; its residual y^3 - scaled is computed with twice the
    // precision.
    F64 y2 = y * y;
    F64 y2Low = m.fma(y, y, -y2);
    F64 residual = m.fma(y2Low, y, m.fma(y2, y, -scaled));
    y = m.fma(-residual, c(1.0 / 3.0) / y2, y);
    F32 result = m.narrow(m.real(m.bits(y) + m.shl(q - i(50), 52)));
    result = patched(kCbrtPatches, m.abs(x), result);
    Mask ordinary =
        m.both(m.unequal(x, s32(0.0f)), m.lt(m.abs(x), s32(kInfinity)));
    return m.select(ordinary, m.copysign(result, x), x);
  }

  //===--------------------------------------------------------------------===//
  // Functions of two operands
  //===--------------------------------------------------------------------===//

  F32 hypot(F32 x, F32 y) {
    F64 a = m.widen(x), b = m.widen(y);
    // The squares are exact as f64, and their sum is exact as a pair.
    Pair s = twoSum(a * a, b * b);
    F64 r = m.sqrt(s.high);
    // The residual s - r^2 is exact. Its sign tells whether the exact result is
    // above or below r.
    F64 residual = m.fma(-r, r, s.high) + s.low;
    F32 result = m.narrow(roundToOdd({r, residual}));
    F32 infinity = s32(kInfinity);
    Mask infinite =
        m.either(m.eq(m.abs(x), infinity), m.eq(m.abs(y), infinity));
    return m.select(infinite, infinity, result);
  }

  F32 atan2(F32 y, F32 x) {
    F64 ay = m.widen(m.abs(y)), ax = m.widen(m.abs(x));
    Mask steep = m.lt(ax, ay);
    F64 small = m.select(steep, ax, ay);
    F64 large = m.select(steep, ay, ax);
    Mask bothInfinite =
        m.both(m.eq(small, c(kInfinity)), m.eq(large, c(kInfinity)));
    small = m.select(bothInfinite, one(), small);
    large = m.select(m.either(bothInfinite, m.eq(large, c(0.0))), one(), large);
    // The magnitude of the result is base + turn * atan(small / large).
    Mask left = m.lt(m.copysign(s32(1.0f), x), s32(0.0f));
    F64 base = m.select(steep, c(kHalfPiHi), m.select(left, c(kPiHi), c(0.0)));
    F64 low = m.select(steep, c(kHalfPiLo), m.select(left, c(kPiLo), c(0.0)));
    F64 turn = m.select(m.differ(steep, left), c(-1.0), one());

    Mask middle = m.lt(large * c(kTanPi8), small);
    F64 n = m.select(middle, small - large, small) * turn;
    F64 q = n / m.select(middle, small + large, large);
    F64 z = q * q;
    F64 quarter = m.select(middle, c(kQuarterPiHi), c(0.0));
    F64 angle = sum(m.fma(turn, quarter, base), q,
                    m.fma(q * z, polynomial(kAtan, z), low));
    angle = ifClose(angle, 0x1p-49, [&] {
      return roundToOdd(angleOfQuotient(small, large, turn, {base, low}));
    });
    return m.copysign(m.narrow(angle), y);
  }

  F32 pow(F32 x, F32 y) {
    F64 w = m.widen(y);
    // Every finite f32 from 2^25 on is an even integer, so a larger |y| is
    // replaced by 2^25.
    F64 a = m.abs(w);
    a = m.select(m.lt(c(0x1p25), a), c(0x1p25), a);
    F64 t = a + c(kRoundShift);
    F64 nearest = t - c(kRoundShift);
    Mask odd = m.both(m.eq(nearest, a), m.ine(m.bits(t) & i(1), i(0)));
    F32 r = signedPower(x, w, odd);
    Mask broken = m.both(m.unequal(nearest, a),
                         m.both(m.lt(x, s32(0.0f)), m.lt(s32(-kInfinity), x)));
    return m.select(broken, s32(kNaN), r);
  }

  F32 powi(F32 x, I64 n) {
    return signedPower(x, m.toReal(n), m.ine(n & i(1), i(0)));
  }

private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  /// Adding this constant to an f64 rounds it to a whole number, which is then
  /// in the low bits of the sum.
  static constexpr double kRoundShift = 0x1.8p52;
  static constexpr int64_t kRoundShiftBits = 0x4338000000000000;
  static constexpr int64_t kOneBits = 0x3ff0000000000000;
  static constexpr int64_t kMantissaMask = 0x000fffffffffffff;
  static constexpr int64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd;
  /// For |x| below this, reduction modulo pi (or pi/2) takes only two steps.
  static constexpr double kHuge = 0x1p28;

  /// The unevaluated sum of two f64. |low| is at most half a unit in the last
  /// place of `high`.
  struct Pair {
    F64 high, low;
  };

  F64 c(double value) { return m.constant(value); }
  F32 s32(float value) { return m.constant(value); }
  F64 one() { return m.constant(1.0); }
  I64 i(int64_t value) { return m.constant(value); }

  /// Evaluates the polynomial with the coefficients `table` at x: by Estrin's
  /// scheme within groups of up to 8 terms, and by Horner's scheme over the
  /// groups.
  template <size_t n>
  F64 polynomial(const double (&table)[n], F64 x) {
    constexpr size_t size = n < 5 ? 1 : n < 8 ? 2 : n < 16 ? 4 : 8;
    F64 powers[4] = {x, x, x, x}; // x, x^2, x^4, x^8
    for (size_t j = 1; (size_t(1) << j) <= size; ++j)
      powers[j] = powers[j - 1] * powers[j - 1];
    size_t level = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
    size_t first = (n - 1) / size * size;
    F64 p = terms(table, first, n - first, powers, level);
    while (first > 0) {
      first -= size;
      p = m.fma(p, powers[level], terms(table, first, size, powers, level));
    }
    return p;
  }

  /// Returns the sum of the terms from `first` on, divided by x^first. There
  /// are `count` terms, at most 2^level. `powers` are x, x^2, x^4 and x^8.
  F64 terms(const double *table, size_t first, size_t count, const F64 *powers,
            size_t level) {
    if (count == 1)
      return c(table[first]);
    size_t half = size_t(1) << (level - 1);
    if (count <= half)
      return terms(table, first, count, powers, level - 1);
    return m.fma(terms(table, first + half, count - half, powers, level - 1),
                 powers[level - 1],
                 terms(table, first, half, powers, level - 1));
  }

  /// Returns y, or the result that `patches` has for x.
  template <size_t n>
  F32 patched(const std::array<Patch, n> &patches, F32 x, F32 y) {
    for (const Patch &patch : patches)
      y = m.select(m.eq(x, fromBits(patch.input)), fromBits(patch.result), y);
    return y;
  }
  F32 fromBits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return s32(value);
  }

  /// Returns x clamped to [low, high]. NaN stays NaN.
  F32 clamp(F32 x, float low, float high) {
    x = m.select(m.lt(s32(high), x), s32(high), x);
    return m.select(m.lt(x, s32(low)), s32(low), x);
  }

  /// Returns a + b + low, with the rounding error of a + b compensated.
  /// Requires |a| >= |b| or a = 0.
  F64 sum(F64 a, F64 b, F64 low) {
    F64 high = a + b;
    return high + ((b - (high - a)) + low);
  }

  /// x = n log(2) + r. The low bits of t contain n.
  struct Scaled {
    F64 t, r;
  };
  Scaled reduceExp(F64 x) {
    F64 t = m.fma(x, c(kLog2E), c(kRoundShift));
    F64 n = t - c(kRoundShift);
    F64 r = m.fma(n, c(-kLn2Hi), x);
    return {t, m.fma(n, c(-kLn2Lo), r)};
  }

  /// Returns 2^(n + bias), where the low bits of t contain n.
  F64 powerOfTwo(F64 t, int64_t bias = 0) {
    return m.real(m.shl(m.bits(t), 52) +
                  i(kOneBits + bias * (int64_t(1) << 52)));
  }

  template <size_t n>
  F64 expm1Of(F64 x, const double (&table)[n]) {
    Scaled s = reduceExp(x);
    F64 q = m.fma(polynomial(table, s.r), s.r, one()) * s.r;
    F64 scale = powerOfTwo(s.t);
    return m.fma(scale, q, scale - one());
  }

  /// sinh(n log(2)), cosh(n log(2)), sinh(r) and cosh(r) - 1 for x = n log(2) +
  /// r.
  struct Hyperbolic {
    F64 sinhN, coshN, sinhR, coshR;
  };
  template <size_t n>
  Hyperbolic hyperbolic(F64 x, const double (&odd)[n],
                        const double (&even)[n]) {
    Scaled s = reduceExp(x);
    F64 z = s.r * s.r;
    F64 up = powerOfTwo(s.t, -1);
    F64 down =
        m.real(i(kOneBits - (int64_t(1) << 52)) - m.shl(m.bits(s.t), 52));
    return {up - down, up + down, m.fma(s.r * z, polynomial(odd, z), s.r),
            z * polynomial(even, z)};
  }

  /// x = 2^k * m with m in [sqrt(1/2), sqrt(2)).
  struct Binade {
    F64 k, m;
  };
  Binade binade(F64 x) {
    I64 b = m.bits(x);
    I64 above = b + i(kOneBits - kSqrtHalfBits);
    F64 k =
        m.real(m.shr(above, 52) | i(0x4330000000000000)) - c(0x1p52 + 1023.0);
    F64 mantissa = m.real(b - (above & i(~kMantissaMask)) + i(kOneBits));
    return {k, mantissa};
  }

  /// Returns log(1 + f) - f + low.
  template <size_t n>
  F64 logTail(F64 f, const double (&table)[n], F64 low) {
    F64 s = f / (f + c(2.0));
    F64 z = s * s;
    return m.fma(s, m.fma(z, polynomial(table, z), -f), low);
  }
  template <size_t n>
  F64 logTail(F64 f, const double (&table)[n]) {
    F64 s = f / (f + c(2.0));
    F64 z = s * s;
    return s * m.fma(z, polynomial(table, z), -f);
  }

  /// Returns k log(2) + 2 atanh(s).
  template <size_t n>
  F64 logOfQuotient(F64 k, F64 s, const double (&table)[n]) {
    F64 z = s * s;
    F64 low = m.fma(k, c(kLn2ShortLo), s * z * polynomial(table, z));
    return sum(k * c(kLn2ShortHi), s + s, low);
  }

  /// Returns log2(2^k * (1 + f)).
  F64 log2Of(Binade b, F64 f) {
    F64 low = m.fma(f, c(kLog2EShortLo), logTail(f, kLog2) * c(kLog2E));
    return sum(b.k, f * c(kLog2EShortHi), low);
  }

  F64 exp2Of(F64 x) {
    F64 t = x + c(kRoundShift);
    F64 r = x - (t - c(kRoundShift));
    return m.fma(polynomial(kExp2, r), r, one()) * powerOfTwo(t);
  }

  /// Returns y if x is above the pole and finite; otherwise the value of a
  /// logarithm at x: -infinity at the pole, NaN below it, and x if infinite or
  /// NaN.
  F32 logSpecial(F32 x, float pole, F32 y) {
    F32 above = m.select(m.lt(x, s32(kInfinity)), y, x);
    F32 other = m.select(m.eq(x, s32(pole)), s32(-kInfinity), s32(kNaN));
    return m.select(m.lt(s32(pole), x), above, other);
  }

  //===--------------------------------------------------------------------===//
  // Twice the precision
  //===--------------------------------------------------------------------===//

  /// Returns a + b exactly, as a pair. Requires |a| >= |b| or a = 0.
  Pair fastTwoSum(F64 a, F64 b) {
    F64 high = a + b;
    return {high, b - (high - a)};
  }
  Pair twoSum(F64 a, F64 b) {
    F64 high = a + b;
    F64 part = high - a;
    return {high, (a - (high - part)) + (b - part)};
  }
  Pair add(Pair a, Pair b) {
    Pair s = twoSum(a.high, b.high);
    return fastTwoSum(s.high, s.low + (a.low + b.low));
  }
  Pair multiply(Pair a, Pair b) {
    F64 p = a.high * b.high;
    F64 e = m.fma(a.high, b.high, -p);
    return fastTwoSum(p, e + m.fma(a.high, b.low, a.low * b.high));
  }
  Pair pair(const double (&value)[2]) { return {c(value[0]), c(value[1])}; }

  /// Evaluates the polynomial with the coefficients `table` at x. Terms from
  /// `single` on are computed in one f64.
  template <size_t n>
  Pair polynomial(const double (&table)[n][2], Pair x, size_t single) {
    F64 p = c(table[n - 1][0]);
    size_t j = n - 1;
    for (; j > single; --j)
      p = m.fma(p, x.high, c(table[j - 1][0]));
    Pair sum = {p, c(0.0)};
    for (; j > 0; --j)
      sum = add(pair(table[j - 1]), multiply(sum, x));
    return sum;
  }

  /// Returns a positive pair as one f64, rounded to odd: if inexact, to the
  /// adjacent f64 with an odd significand. Rounding this again to f32 gives the
  /// f32 to which the pair rounds.
  F64 roundToOdd(Pair a) {
    I64 b = m.bits(a.high);
    I64 above = b | i(1);
    I64 below = (b - i(1)) | i(1);
    I64 odd = m.iselect(m.lt(a.low, c(0.0)), below, above);
    return m.real(m.iselect(m.eq(a.low, c(0.0)), b, odd));
  }

  /// Returns y, whose relative error is below `error`, except in lanes where y
  /// is too close to the boundary between two f32: these get precise(). The
  /// code of precise() runs only if there is such a lane.
  template <typename Precise>
  F64 ifClose(F64 y, double error, Precise precise) {
    Mask close = m.roundsApart(m.fma(y, c(-error), y), m.fma(y, c(error), y));
    Turn result = m.ifAny(close, Turn{y, y}, [&] {
      F64 r = precise();
      return Turn{r, r};
    });
    return result.r;
  }

  /// Returns base + turn * atan(small / large) to about 2^-101. Requires 0 <=
  /// small <= large.
  Pair angleOfQuotient(F64 small, F64 large, F64 turn, Pair base) {
    // atan(q) = atan(j / 8) + atan((q - j / 8) / (1 + q j / 8)).
    F64 j = m.fma(small / large, c(8.0), c(kRoundShift)) - c(kRoundShift);
    F64 eighths = j * c(0.125);
    F64 n = m.fma(-eighths, large, small);
    F64 d = m.fma(eighths, small, large);
    F64 t = n / d;
    Pair q = {t, m.fma(-t, d, n) / d};
    Pair z = multiply(q, q);
    Pair tail = multiply(multiply(q, z), polynomial(kAtanPair, z, 7));
    F64 stepHigh = c(kAtanEighths[0][0]), stepLow = c(kAtanEighths[0][1]);
    for (int k = 1; k <= 8; ++k) {
      Mask here = m.eq(j, c(k));
      stepHigh = m.select(here, c(kAtanEighths[k][0]), stepHigh);
      stepLow = m.select(here, c(kAtanEighths[k][1]), stepLow);
    }
    Pair angle = add({stepHigh, stepLow}, add(q, tail));
    return add(base, {turn * angle.high, turn * angle.low});
  }

  /// Returns |x|^y, with the sign of x if `odd`. Callers handle a negative x
  /// whose exponent y is not whole.
  F32 signedPower(F32 x, F64 y, Mask odd) {
    F32 magnitude = m.abs(x);
    // An infinite y has the same result as 2^64.
    y = m.select(m.lt(c(0x1p64), y), c(0x1p64), y);
    y = m.select(m.lt(y, c(-0x1p64)), c(-0x1p64), y);
    Binade b = binade(m.widen(magnitude));
    F64 f = b.m - one();
    F64 log = log2Of(b, f);
    log = m.select(m.eq(magnitude, s32(0.0f)), c(-kInfinity), log);
    log = m.select(m.lt(magnitude, s32(kInfinity)), log, m.widen(magnitude));
    F64 z = y * log;
    z = m.select(m.lt(c(129.0), z), c(129.0), z);
    z = m.select(m.lt(z, c(-151.0)), c(-151.0), z);
    F64 r = ifClose(exp2Of(z), 0x1p-43, [&] { return precisePower(b, f, y); });
    F32 result = m.narrow(r);
    result = m.select(odd, m.copysign(result, x), result);
    Mask isOne = m.either(m.eq(y, c(0.0)), m.eq(x, s32(1.0f)));
    return m.select(isOne, s32(1.0f), result);
  }

  /// The number mantissa * 2^n. The low bits of t contain n.
  struct Power {
    Pair mantissa;
    F64 t;
  };
  /// Returns (2^k * m)^y to about 2^-94. f is m - 1.
  Power power(Binade b, F64 f, F64 y) {
    F64 d = b.m + one();
    F64 t = f / d;
    Pair s = {t, m.fma(-t, d, f) / d};
    Pair log = multiply(s, polynomial(kLog2Pair, multiply(s, s), 10));
    log = add({b.k, c(0.0)}, log);
    F64 p = y * log.high;
    Pair z = fastTwoSum(p, m.fma(y, log.low, m.fma(y, log.high, -p)));
    // 2^z = 2^n * (e^(r log(2) / 16))^16.
    F64 shifted = z.high + c(kRoundShift);
    Pair r = twoSum(z.high - (shifted - c(kRoundShift)), z.low);
    Pair scale = {c(kLn2SixteenthHi), c(kLn2SixteenthLo)};
    Pair e = polynomial(kExpPair, multiply(r, scale), 7);
    for (int k = 0; k < 4; ++k)
      e = multiply(e, e);
    return {e, shifted};
  }

  F64 precisePower(Binade b, F64 f, F64 y) {
    auto [e, t] = power(b, f, y);
    // If the exact power is an f32 or halfway between two f32, e.low is only
    // the error of the pair and must be 0. This occurs only if y is a multiple
    // of 1/128 up to 150.
    F64 scaled = y * c(128.0);
    Mask rational =
        m.both(m.eq((scaled + c(kRoundShift)) - c(kRoundShift), scaled),
               m.le(m.abs(y), c(150.0)));
    Mask exact = m.both(rational, m.lt(m.abs(e.low), e.high * c(0x1p-90)));
    e.low = m.select(exact, c(0.0), e.low);
    return roundToOdd(e) * powerOfTwo(t);
  }

  //===--------------------------------------------------------------------===//
  // Angles
  //===--------------------------------------------------------------------===//

  /// The remainder r of an angle. The low bits of t contain the number of half
  /// (or quarter) turns that were subtracted.
  struct Turn {
    F64 r, t;
  };

  template <size_t n>
  F64 sinOfHalfTurns(F64 x, Turn ordinary, int64_t halves,
                     const double (&table)[n]) {
    Turn turn = ifHuge(x, ordinary, 0, halves);
    F64 z = turn.r * turn.r;
    F64 y = m.fma(turn.r * z, polynomial(table, z), turn.r);
    return m.real(m.bits(y) ^ m.shl(m.bits(turn.t), 63));
  }

  /// Returns the remainder from reduceHuge in lanes where |x| is at least
  /// kHuge, and `ordinary` in the other lanes. The code of reduceHuge runs only
  /// if there is such a lane.
  Turn ifHuge(F64 x, Turn ordinary, int64_t doubling, int64_t quarters) {
    Mask huge = m.le(c(kHuge), m.abs(x));
    return m.ifAny(huge, ordinary,
                   [&] { return reduceHuge(x, doubling, quarters); });
  }

  /// Reduces x modulo p = pi / 2^doubling or, if `halves` is not 0, reduces
  /// |x| + halves * p / 2. Computes the fraction of x / p in integers, from
  /// only those bits of 1 / pi that affect it.
  Turn reduceHuge(F64 x, int64_t doubling, int64_t halves) {
    I64 b = m.bits(m.abs(x));
    I64 mantissa = m.shr((b & i(kMantissaMask)) | i(int64_t(1) << 52), 29);
    // |x| = mantissa * 2^e with 5 <= e <= 104.
    I64 start = m.shr(b, 52) - i(1023 + 24 - doubling);
    I64 word = m.shr(start, 5);
    I64 bit = start & i(31);
    Mask word0 = m.ieq(word, i(0)), word1 = m.ieq(word, i(1)),
         word2 = m.ieq(word, i(2));
    I64 window[4];
    for (int j = 0; j < 4; ++j) {
      auto pair = [&](int w) {
        return i(int64_t(uint64_t(kInvPiWords[w]) << 32 | kInvPiWords[w + 1]));
      };
      I64 w = m.iselect(word2, pair(j + 2), pair(j + 3));
      w = m.iselect(word1, pair(j + 1), w);
      w = m.iselect(word0, pair(j), w);
      window[j] = m.shr(m.shlv(w, bit), 32);
    }
    // high:low is the product modulo 2; bit 63 of `high` has the weight 1.
    I64 low32 = i(0xffffffff);
    I64 p3 = mantissa * window[3];
    I64 p2 = mantissa * window[2] + m.shr(p3, 32);
    I64 p1 = mantissa * window[1] + m.shr(p2, 32);
    I64 p0 = mantissa * window[0] + m.shr(p1, 32);
    I64 high = m.shl(p0, 32) | (p1 & low32);
    I64 low = m.shl(p2, 32) | (p3 & low32);
    high = high + i(int64_t(uint64_t(halves) << 62));
    // `nearest` is the nearest whole number. vh + vl is the signed fraction.
    I64 nearest = m.shr(high + i(int64_t(1) << 62), 63);
    I64 fraction = m.shl(high, 1) | m.shr(low, 63);
    I64 upper = fraction & i(~int64_t(0x7ff));
    F64 vh = m.toReal(upper) * c(0x1p-64);
    I64 lower = m.shl(fraction & i(0x7ff), 42) | m.shr(m.shl(low, 1), 22);
    F64 vl = m.toReal(lower) * c(0x1p-106);
    constexpr double scale[] = {1.0, 0.5};
    F64 unit = c(kPiHi * scale[doubling]), unitLow = c(kPiLo * scale[doubling]);
    F64 ph = vh * unit;
    F64 r = ph + m.fma(vl, unit, m.fma(vh, unitLow, m.fma(vh, unit, -ph)));
    // Infinity becomes NaN. If x is negative, the remainder is negated.
    r = r + (x - x);
    if (!halves)
      r = m.real(m.bits(r) ^
                 (m.bits(x) & i(std::numeric_limits<int64_t>::min())));
    return {r, m.real(nearest | i(kRoundShiftBits))};
  }

  M &m;
};

} // namespace mlir::repro::functions

#endif // REPRO_CODEGEN_FUNCTIONS_FORMULAS_H
