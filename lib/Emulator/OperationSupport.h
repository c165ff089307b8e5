//===- OperationSupport.h - Arithmetic of single lanes ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Only Operations.inc includes this file, once for each CPU level. Everything
// is in an anonymous namespace, because the linker must not merge functions
// that are compiled for different CPU levels.
//
//===----------------------------------------------------------------------===//

using u8 = uint8_t;
using s8 = int8_t;
using u16 = uint16_t;
using s16 = int16_t;
using u32 = uint32_t;
using s32 = int32_t;
using u64 = uint64_t;
using s64 = int64_t;
using u128 = unsigned __int128;
using s128 = __int128;
using b16 = u16;
using b32 = u32;
using b64 = u64;
using pred = u32;
using f32 = float;
using f64 = double;

template <typename T>
constexpr bool isSigned = T(-1) < T(0);

// Integers.

template <typename T>
T divide(T a, T b) {
  if (b == 0)
    return T(-1);
  if (isSigned<T> && b == T(-1))
    return T(-a); // the least value is its own negation
  return T(a / b);
}

template <typename T>
T remainder(T a, T b) {
  if (b == 0)
    return a;
  if (isSigned<T> && b == T(-1))
    return 0;
  return T(a % b);
}

template <typename T>
T shiftLeft(T a, u32 by) {
  return by >= 8 * sizeof(T) ? T(0) : T(a << by);
}

template <typename T>
T shiftRight(T a, u32 by) {
  constexpr u32 bits = 8 * sizeof(T);
  if (isSigned<T>)
    return T(a >> (by >= bits ? bits - 1 : by));
  return by >= bits ? T(0) : T(a >> by);
}

inline u64 reverse(u64 x) {
  x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
  x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
  return __builtin_bswap64(x);
}

/// Returns the index of the highest set bit, or all ones if there is none.
inline u32 findBit(u64 x) { return x ? 63 - __builtin_clzll(x) : 0xffffffffu; }

template <typename T>
u32 shiftAmount(u32 found) {
  return found == 0xffffffffu ? found : u32(8 * sizeof(T) - 1) - found;
}

/// Returns a mask whose `bits` lowest bits are set.
template <typename T>
T lowMask(u32 bits) {
  return bits >= 8 * sizeof(T) ? T(-1) : T((T(1) << bits) - 1);
}

inline u64 toUnsigned(u64 x) { return x; }
inline u64 toUnsigned(s64 x) { return u64(x); }
inline u32 toUnsigned(u32 x) { return x; }
inline u32 toUnsigned(s32 x) { return u32(x); }

template <typename T>
T extract(T value, u32 position, u32 length) {
  constexpr u32 bits = 8 * sizeof(T);
  position &= 0xff;
  length &= 0xff;
  auto x = toUnsigned(value);
  u32 left = position >= bits ? 0 : bits - position;
  u32 valid = length < left ? length : left;
  auto field = shiftLeft(x, 0);
  field = shiftRight(x, position) & lowMask<decltype(x)>(valid);
  if (!isSigned<T> || length == 0)
    return T(field);
  u32 last = position + length - 1;
  bool sign = x >> (last < bits - 1 ? last : bits - 1) & 1;
  return T(sign ? field | ~lowMask<decltype(x)>(valid) : field);
}

template <typename T>
T insert(T a, T b, u32 position, u32 length) {
  position &= 0xff;
  length &= 0xff;
  T mask = shiftLeft(lowMask<T>(length), position);
  return (shiftLeft(a, position) & mask) | (b & ~mask);
}

inline u32 fieldMask(u32 position, u32 length) {
  return shiftLeft(lowMask<u32>(length), position);
}

inline u32 permute(u32 a, u32 b, u32 selector) {
  u64 bytes = u64(b) << 32 | a;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    u32 choice = selector >> (4 * i) & 15;
    u32 byte = u32(bytes >> (8 * (choice & 7))) & 0xff;
    if (choice & 8)
      byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

inline u32 lookup(u32 a, u32 b, u32 c, u32 table) {
  u32 result = 0;
  for (u32 row = 0; row < 8; ++row)
    if (table >> row & 1)
      result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
  return result;
}

/// Returns bits [by, by + 32) of the 64-bit number high:low. `by` is at most
/// 32.
inline u32 funnel(u32 low, u32 high, u32 by) {
  return u32((u64(high) << 32 | low) >> by);
}

template <typename A, typename B>
u32 dot4(u32 a, u32 b, u32 sum) {
  for (int i = 0; i < 4; ++i)
    sum += u32(s32(A(a >> (8 * i))) * s32(B(b >> (8 * i))));
  return sum;
}

// Floating point.

/// Returns x or, if x is a NaN, the canonical NaN that f32 operations return.
/// PTX does not specify the NaN of f64 operations.
inline f32 canonical(f32 x) { return x == x ? x : __builtin_nanf("0x3fffff"); }
inline f64 canonical(f64 x) {
  return x == x ? x : __builtin_nan("0x7ffffffffffff");
}

inline f32 absolute(f32 x) { return __builtin_fabsf(x); }
inline f64 absolute(f64 x) { return __builtin_fabs(x); }
inline f32 squareRoot(f32 x) { return __builtin_sqrtf(x); }
inline f64 squareRoot(f64 x) { return __builtin_sqrt(x); }
inline f32 toEven(f32 x) { return __builtin_rintf(x); }
inline f64 toEven(f64 x) { return __builtin_rint(x); }
inline f32 toZero(f32 x) { return __builtin_truncf(x); }
inline f64 toZero(f64 x) { return __builtin_trunc(x); }
inline f32 toFloor(f32 x) { return __builtin_floorf(x); }
inline f64 toFloor(f64 x) { return __builtin_floor(x); }
inline f32 toCeiling(f32 x) { return __builtin_ceilf(x); }
inline f64 toCeiling(f64 x) { return __builtin_ceil(x); }
inline f32 copySign(f32 sign, f32 x) { return __builtin_copysignf(x, sign); }
inline f64 copySign(f64 sign, f64 x) { return __builtin_copysign(x, sign); }

template <typename T>
T least();
template <>
inline f32 least<f32>() {
  return 0x1p-126f;
}
template <>
inline f64 least<f64>() {
  return 0x1p-1022;
}

inline bool isNegative(f32 x) { return s32(__builtin_bit_cast(u32, x)) < 0; }
inline bool isNegative(f64 x) { return s64(__builtin_bit_cast(u64, x)) < 0; }

/// (S2) Returns the minimum: a NaN if either operand is a NaN, and -0 < +0.
template <typename T>
T minimum(T a, T b) {
  T least = a < b || (a == b && isNegative(a)) ? a : b;
  return a == a && b == b ? least : canonical(a + b);
}
template <typename T>
T maximum(T a, T b) {
  T most = a > b || (a == b && !isNegative(a)) ? a : b;
  return a == a && b == b ? most : canonical(a + b);
}
/// Returns the minimum of the operands that are not NaN, where -0 < +0; a NaN
/// if both are NaN.
template <typename T>
T minimumNumber(T a, T b) {
  T least = a < b || (a == b && isNegative(a)) ? a : b;
  return a != a ? canonical(b) : b != b ? a : least;
}
template <typename T>
T maximumNumber(T a, T b) {
  T most = a > b || (a == b && !isNegative(a)) ? a : b;
  return a != a ? canonical(b) : b != b ? a : most;
}

/// Returns a + b rounded to odd (Knuth's TwoSum): an inexact result has an odd
/// last bit. Rounding it to at most 51 bits then gives the rounded exact sum
/// (Boldo and Melquiond, 2008). The sum must not overflow.
inline f64 oddSum(f64 a, f64 b) {
  f64 sum = a + b, part = sum - a;
  f64 error = (a - (sum - part)) + (b - part);
  u64 bits = __builtin_bit_cast(u64, sum);
  bool inexact = error != 0 && error - error == 0 && !(bits & 1);
  u64 outward = (error > 0) == (sum > 0) ? 1 : u64(-1);
  return __builtin_bit_cast(f64, inexact ? bits + outward : bits);
}

#if defined(__FMA__) || defined(__aarch64__)
inline f32 fused32(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
inline f64 fused64(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
#else
inline f32 fused32(f32 a, f32 b, f32 c) {
  return f32(oddSum(f64(a) * f64(b), f64(c))); // the product is exact
}
inline f64 fused64(f64 a, f64 b, f64 c) { return repro_fma(a, b, c); }
#endif

/// Returns x as an integer of type I, saturated. NaN becomes 0, or the least
/// value if a 64-bit type is involved (PTX ISA, cvt).
template <typename I, typename F>
I saturate(F x) {
  constexpr int bits = 8 * sizeof(I);
  constexpr F end = F(u64(1) << (bits - 2)) * (isSigned<I> ? 2 : 4);
  constexpr F begin = isSigned<I> ? -end : F(0);
  constexpr I most = isSigned<I> ? I(~(u64(1) << (bits - 1))) : I(-1);
  constexpr I least = isSigned<I> ? I(u64(1) << (bits - 1)) : I(0);
  constexpr I ofNaN =
      sizeof(F) == 8 || sizeof(I) == 8 ? I(u64(1) << (bits - 1)) : I(0);
  bool above = x >= end, below = x < begin, isNaN = x != x;
  I inside = I(above || below || isNaN ? F(0) : x);
  return isNaN ? ofNaN : above ? most : below ? least : inside;
}

/// Returns the bits of x rounded to nearest even in a format with
/// `exponentBits` and `fractionBits`.
template <int exponentBits, int fractionBits>
u16 roundSmall(f64 x) {
  constexpr int bias = (1 << (exponentBits - 1)) - 1, least = 1 - bias;
  constexpr u64 infinity = ((u64(1) << exponentBits) - 1) << fractionBits;
  u64 bits = __builtin_bit_cast(u64, x);
  u16 sign = u16(bits >> 48 & 0x8000);
  u64 magnitude = bits & ~(u64(1) << 63);
  if (magnitude >= u64(0x7ff) << 52)
    return magnitude == u64(0x7ff) << 52 ? u16(sign | infinity) : u16(0x7fff);
  int exponent = int(magnitude >> 52) - 1023;
  int used = exponent < least ? least : exponent;
  // Values far below half of the format's least value become 0; among them are
  // all subnormal f64.
  int shift = 52 - fractionBits + (used - exponent);
  if (shift > 54)
    return sign;
  u64 significand = (magnitude & ((u64(1) << 52) - 1)) | u64(1) << 52;
  u64 kept = significand >> shift;
  u64 rest = significand & ((u64(1) << shift) - 1), half = u64(1)
                                                           << (shift - 1);
  kept += rest > half || (rest == half && (kept & 1));
  kept += u64(used + bias - 1) << fractionBits;
  return u16(sign | (kept < infinity ? kept : infinity));
}
inline u16 roundf16(f64 x) { return roundSmall<5, 10>(x); }
inline u16 roundbf16(f64 x) { return roundSmall<8, 7>(x); }

inline f64 valuef16(u16 x) {
  u32 exponent = x >> 10 & 31, fraction = x & 0x3ff;
  f64 magnitude;
  if (exponent == 31)
    magnitude = fraction ? __builtin_nan("") : __builtin_inf();
  else if (exponent == 0)
    magnitude = f64(fraction) * 0x1p-24;
  else
    magnitude = __builtin_bit_cast(f64, u64(exponent + 1008) << 52 |
                                            u64(fraction) << 42);
  return x >> 15 ? -magnitude : magnitude;
}
inline f64 valuebf16(u16 x) {
  return f64(__builtin_bit_cast(f32, u32(x) << 16));
}

template <typename T>
f64 limited(T x) {
  constexpr s64 limit = 1 << 20;
  if (sizeof(T) == 2)
    return f64(x);
  if (isSigned<T> && s64(x) < -limit)
    return f64(-limit);
  return x > T(limit) ? f64(limit) : f64(x);
}
