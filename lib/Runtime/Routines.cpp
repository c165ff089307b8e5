//===- Routines.cpp - Exact routines that kernels call ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Routines.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

namespace {

using u128 = unsigned __int128;

/// (-1)^negative * mantissa * 2^exponent
struct Number {
  bool negative;
  int exponent;
  u128 mantissa;
};

constexpr int topBit = 125; // of a normalized mantissa; sums fit in 128 bits
constexpr int significandBits = 53;
constexpr int leastExponent = -1074;
constexpr int greatestExponent = 1023;

int bitWidth(u128 value) {
  uint64_t high = uint64_t(value >> 64), low = uint64_t(value);
  return high  ? 128 - __builtin_clzll(high)
         : low ? 64 - __builtin_clzll(low)
               : 0;
}

uint64_t bitsOf(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  return bits;
}

/// Splits a finite, non-zero number into sign, exponent and mantissa.
Number split(double x) {
  uint64_t bits = bitsOf(x);
  uint64_t fraction = bits & ((uint64_t(1) << 52) - 1);
  int biased = int(bits >> 52 & 0x7ff);
  if (biased)
    return {bool(bits >> 63), biased - 1075, fraction | uint64_t(1) << 52};
  return {bool(bits >> 63), leastExponent, fraction};
}

/// Shifts right. If a 1 bit is shifted out, sets the last bit of the result.
u128 shiftRightSticky(u128 value, int by) {
  if (by <= 0)
    return value;
  if (by >= 128)
    return value != 0;
  return value >> by | ((value & ((u128(1) << by) - 1)) != 0);
}

void normalize(Number &n) {
  int shift = topBit + 1 - bitWidth(n.mantissa);
  n.mantissa =
      shift >= 0 ? n.mantissa << shift : shiftRightSticky(n.mantissa, -shift);
  n.exponent -= shift;
}

/// Returns the number rounded to a double, to nearest even.
double round(Number n) {
  normalize(n);
  // 2^unit is the weight of the result's last bit.
  int unit = n.exponent + topBit + 1 - significandBits;
  if (unit < leastExponent)
    unit = leastExponent;
  int drop = unit - n.exponent;
  u128 kept = shiftRightSticky(n.mantissa, drop - 2); // plus two extra bits
  uint64_t low = uint64_t(kept) & 3;
  uint64_t significand = uint64_t(kept >> 2);
  if (low > 2 || (low == 2 && (significand & 1)))
    ++significand;
  if (significand >> significandBits) {
    significand >>= 1;
    ++unit;
  }
  uint64_t bits;
  if (unit + significandBits - 1 > greatestExponent)
    bits = uint64_t(0x7ff) << 52;
  else if (significand >> (significandBits - 1))
    bits = (uint64_t(unit + 1075) << 52) |
           (significand & ((uint64_t(1) << 52) - 1));
  else
    bits = significand; // subnormal, or zero
  bits |= uint64_t(n.negative) << 63;
  double result;
  std::memcpy(&result, &bits, 8);
  return result;
}

} // namespace

double repro_fma(double a, double b, double c) {
  auto isFinite = [](double x) { return (bitsOf(x) >> 52 & 0x7ff) != 0x7ff; };
  if (!isFinite(a) || !isFinite(b) || !isFinite(c)) {
    // If a and b are finite, c is not, and the exact sum is c. The float
    // product could overflow to an infinity, which would change the sum.
    if (isFinite(a) && isFinite(b))
      return c;
    return a * b + c;
  }
  if (a == 0 || b == 0)
    return a * b + c;
  if (c == 0)
    return a * b;
  Number x = split(a), y = split(b), z = split(c);
  Number p{x.negative != y.negative, x.exponent + y.exponent,
           x.mantissa * y.mantissa};
  normalize(p);
  normalize(z);
  if (p.exponent < z.exponent)
    std::swap(p, z);
  // The sticky bit is far below the bits that decide the rounding, unless a
  // subtraction cancels many leading bits. In that case the exponents differ by
  // at most one, and the shift drops no 1 bits.
  z.mantissa = shiftRightSticky(z.mantissa, p.exponent - z.exponent);
  if (p.negative == z.negative) {
    p.mantissa += z.mantissa;
  } else if (p.mantissa > z.mantissa) {
    p.mantissa -= z.mantissa;
  } else if (p.mantissa < z.mantissa) {
    p.mantissa = z.mantissa - p.mantissa;
    p.negative = z.negative;
  } else {
    return 0.0;
  }
  return round(p);
}

// fmod is exact, so all C libraries return the same bits.
double repro_fmod(double x, double y) { return std::fmod(x, y); }
