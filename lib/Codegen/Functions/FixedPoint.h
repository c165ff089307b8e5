//===- FixedPoint.h - Fixed-point numbers of many digits --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fixed-point numbers of at least 168 bits, for the f64 functions (S5). A digit
// has 28 bits and is an i64: the product of two digits has 56 bits, and carries
// are propagated only once, after all products of a sum are added. Integer
// operations are exact, so all targets agree. Every number carries a bound of
// its error, which is known when the code is emitted.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_FUNCTIONS_FIXEDPOINT_H
#define REPRO_CODEGEN_FUNCTIONS_FIXEDPOINT_H

#include "DoubleConstants.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

namespace mlir::repro::functions {

/// Fixed-point arithmetic. M is the machine on which it computes (see
/// Formulas.h).
template <typename M>
class FixedPoint {
public:
  using F64 = typename M::F64;
  using I64 = typename M::I64;
  using Mask = typename M::Mask;

  static constexpr int kBits = 28;
  static constexpr int64_t kDigitMask = (int64_t(1) << kBits) - 1;
  /// Adding this constant to an f64 rounds it to a whole number, which is then
  /// in the low bits of the sum.
  static constexpr double kRoundShift = 0x1.8p52;
  static constexpr int64_t kRoundShiftBits = 0x4338000000000000;
  static constexpr int64_t kOneBits = 0x3ff0000000000000;
  static constexpr int64_t kMantissaMask = 0x000fffffffffffff;
  static constexpr int64_t kSignBit = INT64_MIN;

  explicit FixedPoint(M &machine) : m(machine) {}

  /// Returns the largest bound on the relative error of a number that round()
  /// has rounded so far.
  double getError() const { return worst; }

protected:
  /// A number in [0, bound) that differs by at most `error` from the real
  /// number that it approximates. Digit j is in [0, 2^28) and has the weight
  /// 2^-(28 (first + j)).
  struct Fixed {
    int first = 0;
    std::vector<I64> digits;
    double bound = 0, error = 0;

    int last() const { return first + int(digits.size()) - 1; }
    bool has(int index) const { return index >= first && index <= last(); }
    I64 at(int index) const { return digits[index - first]; }
  };

  static double unit(int index) { return std::ldexp(1.0, -kBits * index); }
  /// Returns the index of the first digit that numbers below `bound` need.
  static int firstDigit(double bound) {
    return std::max(0, int(std::floor(-std::log2(bound) / kBits)) + 1);
  }

  F64 c(double value) { return m.constant(value); }
  I64 i(int64_t value) { return m.constant(value); }
  /// Returns x if `sign` is 0, and -x if it is -1.
  I64 negateIf(I64 sign, I64 x) { return (x ^ sign) - sign; }

  /// A sum of numbers and products, as digits of 28 bits. Digits after `last`
  /// are truncated. Terms may be negative, but the sum must not be.
  class Sum {
  public:
    Sum(FixedPoint &f, int last) : f(f), last(last), columns(last + 2) {}

    void add(int index, I64 term) {
      std::optional<I64> &column = columns[index];
      column = column ? *column + term : term;
    }
    Sum &plus(const Fixed &a) {
      return each(a, [&](int index, I64 digit) { add(index, digit); });
    }
    Sum &minus(const Fixed &a) {
      signedTerms = true;
      return each(a, [&](int index, I64 digit) { subtract(index, digit); });
    }
    /// Adds a if `sign` is 0, and -a if it is -1.
    Sum &plusSigned(const Fixed &a, I64 sign) {
      signedTerms = true;
      return each(a, [&](int index, I64 digit) {
        add(index, f.negateIf(sign, digit));
      });
    }
    /// Adds factor * a. |factor| must be at most `most`, which is below 2^30.
    Sum &plusMultiple(I64 factor, const Fixed &a, double most) {
      signedTerms = true;
      error += (most - 1) * a.error;
      return each(a, [&](int index, I64 digit) { add(index, factor * digit); });
    }
    /// Adds x, where |x| < 2^51. The bits of x after digit `end` are left out;
    /// the value of these bits must be at most `rest`.
    Sum &plusReal(F64 x, int end, double rest) {
      signedTerms = true;
      error += rest;
      for (int index = 0; index <= std::min(end, last + 1); ++index) {
        F64 t = x + f.c(kRoundShift);
        add(index, f.m.bits(t) - f.i(kRoundShiftBits));
        if (index < end)
          x = (x - (t - f.c(kRoundShift))) * f.c(0x1p28);
      }
      return *this;
    }
    Sum &plusProduct(const Fixed &a, const Fixed &b) {
      return product(a, b, [&](int index, I64 value) { add(index, value); });
    }
    Sum &minusProduct(const Fixed &a, const Fixed &b) {
      signedTerms = true;
      return product(a, b,
                     [&](int index, I64 value) { subtract(index, value); });
    }

    /// Returns the sum, which must lie in [0, bound).
    Fixed value(double bound) { return carried(firstDigit(bound), bound); }

    /// Returns the sum, or 0 if truncation made it negative. The sum must lie
    /// in (-1, bound).
    Fixed atLeastZero(double bound) {
      signedTerms = true;
      Fixed twos = carried(0, bound, /*keepSign=*/true);
      I64 keep = twos.digits.front() ^ f.i(-1);
      int first = firstDigit(bound);
      Fixed result = twos;
      result.first = first;
      result.digits.assign(twos.digits.begin() + first, twos.digits.end());
      for (I64 &digit : result.digits)
        digit = digit & keep;
      return result;
    }

    /// Returns the magnitude of a sum in (-1, 1). The magnitude must be below
    /// `bound`. Sets `sign` to -1 if the sum is negative, otherwise to 0.
    Fixed magnitude(double bound, I64 &sign) {
      signedTerms = true;
      Fixed twos = carried(0, 1, /*keepSign=*/true);
      sign = twos.digits.front();
      Sum result(f, twos.last());
      result.plusSigned(twos, sign);
      return result.value(bound);
    }

  private:
    template <typename Each>
    Sum &each(const Fixed &a, Each term) {
      error += a.error;
      for (int index = a.first; index <= a.last(); ++index)
        if (index <= last + 1)
          term(index, a.at(index));
      if (a.last() > last + 1)
        error += unit(last + 1);
      return *this;
    }
    template <typename Each>
    Sum &product(const Fixed &a, const Fixed &b, Each term) {
      error += a.bound * b.error + b.bound * a.error + a.error * b.error;
      for (int p = a.first; p <= a.last(); ++p)
        for (int q = b.first; q <= b.last(); ++q)
          if (p + q <= last + 1)
            term(p + q, a.at(p) * b.at(q));
          else
            error += std::ldexp(1.0, kBits * (2 - p - q));
      return *this;
    }
    void subtract(int index, I64 term) {
      std::optional<I64> &column = columns[index];
      column = column ? *column - term : f.i(0) - term;
    }
    /// Returns the sum with carries propagated. Digits before `first` are zero
    /// and are not computed.
    Fixed carried(int first, double bound, bool keepSign = false) {
      int end = last + 1;
      while (end > 0 && !columns[end])
        --end;
      Fixed result;
      result.first = first;
      result.bound = bound;
      result.error = error + (end > last ? unit(last) : 0.0);
      result.digits.resize(std::max(std::min(end, last) - first + 1, 0));
      std::optional<I64> carry;
      for (int index = end; index >= first; --index) {
        I64 total = columns[index] ? *columns[index] : f.i(0);
        if (carry)
          total = total + *carry;
        if (index <= last)
          result.digits[index - first] =
              keepSign && index == 0 ? total : total & f.i(kDigitMask);
        if (index > first)
          carry = signedTerms ? f.m.sar(total, kBits) : f.m.shr(total, kBits);
      }
      return result;
    }

    FixedPoint &f;
    int last;
    std::vector<std::optional<I64>> columns;
    double error = 0;
    bool signedTerms = false;
  };

  Sum sum(int last) { return Sum(*this, last); }

  Fixed load(const LongConstant &constant, int last) {
    int end = std::min<int>(last, std::size(constant.digits) - 1);
    Fixed result;
    result.bound = constant.value * (1 + 0x1p-50);
    result.first = firstDigit(result.bound);
    for (int index = result.first; index <= end; ++index)
      result.digits.push_back(i(constant.digits[index]));
    result.error = unit(end);
    for (const uint32_t *d = constant.digits + end + 1;; ++d)
      if (d == std::end(constant.digits))
        return exactly(result);
      else if (*d)
        return result;
  }

  /// Returns x as a number with digits up to `last`. x must lie in [0, bound)
  /// and fit exactly.
  Fixed exactReal(F64 x, int last, double bound) {
    return sum(last).plusReal(x, last, 0).value(bound);
  }

  Fixed multiply(const Fixed &a, const Fixed &b, int last) {
    return sum(last).plusProduct(a, b).value(a.bound * b.bound);
  }

  Fixed select(Mask mask, const Fixed &a, const Fixed &b) {
    Fixed result;
    result.first = std::min(a.first, b.first);
    result.bound = std::max(a.bound, b.bound);
    result.error = std::max(a.error, b.error);
    for (int index = result.first; index <= std::max(a.last(), b.last());
         ++index)
      result.digits.push_back(m.iselect(mask, a.has(index) ? a.at(index) : i(0),
                                        b.has(index) ? b.at(index) : i(0)));
    return result;
  }

  /// Returns a / 2^n for 0 < n < 28.
  Fixed shiftRight(const Fixed &a, int n, int last) {
    Fixed result;
    result.bound = std::ldexp(a.bound, -n);
    result.first = firstDigit(result.bound);
    int end = std::min(last, a.last() + 1);
    for (int index = result.first; index <= end; ++index) {
      I64 low = a.has(index) ? m.shr(a.at(index), n) : i(0);
      result.digits.push_back(
          a.has(index - 1)
              ? low | (m.shl(a.at(index - 1), kBits - n) & i(kDigitMask))
              : low);
    }
    result.error =
        std::ldexp(a.error, -n) + (end <= a.last() ? unit(end) : 0.0);
    return result;
  }

  /// Returns the sum of coefficients[first + step * k] z^k for k < count, with
  /// alternating signs if `alternates`. z is below 2^-decay, so each
  /// coefficient needs `decay` fewer bits than the one before.
  template <size_t n>
  Fixed series(const LongConstant (&coefficients)[n], int first, int step,
               int count, const Fixed &z, double decay, bool alternates,
               int last) {
    auto lastOf = [&](int k) {
      return std::min(last, int(last + 1 - std::floor(k * decay / kBits)));
    };
    return seriesOf(
        [&](int k) { return load(coefficients[first + step * k], lastOf(k)); },
        count, z, alternates, lastOf);
  }
  template <typename Coefficient, typename LastOf>
  Fixed seriesOf(Coefficient coefficient, int count, const Fixed &z,
                 bool alternates, LastOf lastOf) {
    Fixed p = coefficient(count - 1);
    for (int k = count - 2; k >= 0; --k) {
      Fixed term = coefficient(k);
      Sum next = sum(lastOf(k));
      next.plus(term);
      if (alternates)
        p = next.minusProduct(z, p).value(term.bound);
      else
        p = next.plusProduct(z, p).value(term.bound + z.bound * p.bound);
    }
    return p;
  }

  /// The number mantissa * 2^exponent; the mantissa is in [1/2, 1).
  struct Scaled {
    Fixed mantissa;
    I64 exponent;
  };
  /// Returns `a` normalized. `a` must be at least `least`. The error of the
  /// mantissa is then a bound on the relative error.
  Scaled normalize(Fixed a, double least) {
    int passes = firstDigit(least) - a.first;
    I64 exponent = i(-int64_t(kBits) * (a.first - 1));
    for (int pass = 0; pass < passes; ++pass) {
      Mask zero = m.ieq(a.digits.front(), i(0));
      for (size_t j = 0; j < a.digits.size(); ++j)
        a.digits[j] =
            m.iselect(zero, j + 1 < a.digits.size() ? a.digits[j + 1] : i(0),
                      a.digits[j]);
      exponent = exponent - m.iselect(zero, i(kBits), i(0));
    }
    I64 top = m.shr(m.bits(wholeReal(a.digits.front())), 52) - i(1023);
    // The masks keep shift amounts valid where `a` is below `least`. This
    // occurs for arguments whose results are replaced later.
    I64 up = (i(kBits - 1) - top) & i(31);
    I64 down = (i(kBits) - up) & i(31);
    Scaled result{{}, exponent - up};
    Fixed &mantissa = result.mantissa;
    mantissa.first = 1;
    mantissa.bound = 1;
    mantissa.error = a.error / least;
    for (size_t j = 0; j < a.digits.size(); ++j) {
      I64 digit = m.shlv(a.digits[j], up) & i(kDigitMask);
      if (j + 1 < a.digits.size())
        digit = digit | m.shrv(a.digits[j + 1], down);
      mantissa.digits.push_back(digit);
    }
    return result;
  }

  /// Returns a digit in [0, 2^52) as an f64.
  F64 wholeReal(I64 digit) {
    return m.real(digit | i(0x4330000000000000)) - c(0x1p52);
  }
  /// Returns a mantissa in [1/2, 1) as an f64, to within 2^-52.
  F64 approximate(const Fixed &mantissa) {
    return wholeReal(mantissa.digits[0]) * c(0x1p-28) +
           wholeReal(mantissa.digits[1]) * c(0x1p-56);
  }

  /// Returns 1 / d for d in [0.46, 2.2). `approximation` agrees with d to 50
  /// bits.
  Fixed reciprocal(const Fixed &d, F64 approximation, int last) {
    // With y slightly below 1/d, e = 1 - d y is positive, and 1/d = y (1 + e +
    // e^2 + e^3 + ...).
    F64 y0 = c(1 - 0x1p-48) / approximation;
    Fixed y = exactReal(y0, 2, 2.2);
    Fixed e =
        sum(last).plus(load(kLongOne, 0)).minusProduct(d, y).value(0x1p-46);
    Fixed e2 = multiply(e, e, last);
    Fixed s = sum(last).plus(e).plus(e2).plusProduct(e, e2).value(0x1p-45);
    Fixed result = sum(last).plus(y).plusProduct(y, s).value(2.2);
    result.error += 0x1p-182;
    return result;
  }

  /// Returns 1 / sqrt(w) for w in [0.1, 8.3). `approximation` agrees with w to
  /// 50 bits.
  Fixed reciprocalRoot(const Fixed &w, F64 approximation, int last) {
    // With y slightly below 1/sqrt(w), e = 1 - w y^2 is positive, and 1/sqrt(w)
    // = y (1 - e)^(-1/2).
    F64 y0 = c(1 - 0x1p-48) / m.sqrt(approximation);
    Fixed y = exactReal(y0, 2, 3.2);
    Fixed square = multiply(y, y, 4);
    Fixed e = sum(last)
                  .plus(load(kLongOne, 0))
                  .minusProduct(w, square)
                  .value(0x1p-45);
    Fixed s = sum(last)
                  .plus(load(kLongThreeEighths, 1))
                  .plusProduct(e, load(kLongFiveSixteenths, 1))
                  .value(0.5);
    s = sum(last).plus(load(kLongHalf, 1)).plusProduct(e, s).value(0.75);
    s = multiply(e, s, last);
    Fixed result = sum(last).plus(y).plusProduct(y, s).value(3.2);
    result.error += 0x1p-181;
    return result;
  }

  /// (S1) Returns a * 2^exponent with the sign `sign` (0 or the sign bit) as an
  /// f64, rounded once to nearest even; it may be subnormal or infinite. `a`
  /// must be at least `least`.
  F64 round(const Fixed &a, double least, I64 exponent, I64 sign) {
    Scaled s = normalize(a, least);
    worst = std::max(worst, s.mantissa.error * 2);
    const std::vector<I64> &d = s.mantissa.digits;
    I64 word = m.shl(d[0], 36) | m.shl(d[1], 8) | m.shr(d[2], 20);
    I64 low = d[2] & i(0xfffff);
    for (size_t j = 3; j < d.size(); ++j)
      low = low | d[j];
    I64 biased = exponent + s.exponent + i(1022);
    // A subnormal result has `lost` fewer significand bits.
    I64 lost = i(1) - biased;
    lost = lost & (m.sar(lost, 63) ^ i(-1));
    I64 over = i(62) - lost;
    lost = lost + (over & m.sar(over, 63));
    I64 shifted = m.shrv(word, lost);
    low = low | (m.shlv(shifted, lost) ^ word);
    I64 mantissa = m.shr(shifted, 11);
    I64 rest = (shifted & i(0x3ff)) | (mantissa & i(1)) | low;
    I64 half = m.shr(shifted, 10) & i(1);
    mantissa = mantissa + m.iselect(m.ine(rest, i(0)), half, i(0));
    I64 steps = biased - i(1);
    steps = steps & (m.sar(steps, 63) ^ i(-1));
    I64 bits = mantissa + m.shl(steps, 52);
    Mask overflow = m.ieq(m.sar(i(2046) - biased, 63), i(-1));
    bits = m.iselect(overflow, i(0x7ff0000000000000), bits);
    return m.real(bits | sign);
  }

  M &m;

private:
  static Fixed exactly(Fixed a) {
    a.error = 0;
    return a;
  }

  double worst = 0;
};

} // namespace mlir::repro::functions

#endif // REPRO_CODEGEN_FUNCTIONS_FIXEDPOINT_H
