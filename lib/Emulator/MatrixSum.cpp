//===- MatrixSum.cpp - Sums of matrix units -------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/MatrixSum.h"

#include <algorithm>
#include <cstring>

using namespace repro_emulator;

using repro_target::MatrixRounding;

namespace {
/// The format of results: the widths of its fields, and the bits of its
/// infinity and of the NaN that devices return.
struct Format {
  unsigned exponentBits, fraction;
  uint32_t infinity, nan;
  uint32_t getSign() const { return 1u << (exponentBits + fraction); }
};
} // namespace

static constexpr Format f32 = {8, 23, 0x7f800000, 0x7fffffff};
static constexpr Format f16 = {5, 10, 0x7c00, 0x7fff};

static constexpr const Format &getFormat(MatrixRounding rounding) {
  return rounding == MatrixRounding::ToF16 ? f16 : f32;
}

static Significand read(uint32_t bits, unsigned exponentBits,
                        unsigned fractionBits) {
  uint32_t fraction = bits & ((1u << fractionBits) - 1);
  uint32_t most = (1u << exponentBits) - 1;
  uint32_t field = bits >> fractionBits & most;
  Significand result;
  result.negative = bits >> (exponentBits + fractionBits) & 1;
  result.infinite = field == most && fraction == 0;
  result.nan = field == most && fraction != 0;
  result.significand = fraction | uint32_t(field != 0) << fractionBits;
  result.exponent = int32_t(std::max(field, 1u)) - int32_t(most / 2);
  return result;
}

static Significand readOwn(uint32_t bits, MatrixElement element) {
  auto readShort = [&](unsigned exponentBits, unsigned fractionBits) {
    Significand result = read(bits, exponentBits, fractionBits);
    result.significand <<= elementFraction - fractionBits;
    return result;
  };
  switch (element) {
  case MatrixElement::F16:
    return readShort(5, 10);
  case MatrixElement::BF16:
    return readShort(8, 7);
  case MatrixElement::TF32:
    return read(bits >> 13, 8, 10);
  case MatrixElement::E4M3: {
    // E4M3 has no infinities; its only NaNs have all bits but the sign set.
    Significand result = readShort(4, 3);
    result.infinite = false;
    result.nan = (bits & 0x7f) == 0x7f;
    return result;
  }
  case MatrixElement::E5M2:
    return readShort(5, 2);
  }
  return {};
}

Significand repro_emulator::readElement(uint32_t bits, MatrixElement element,
                                        bool late) {
  Significand result = readOwn(bits, element);
  constexpr int leastOfF16 = -14;
  while (late && result.significand && result.exponent > leastOfF16 &&
         !(result.significand >> elementFraction)) {
    result.significand <<= 1;
    --result.exponent;
  }
  return result;
}

/// Returns significand * 2^places truncated toward zero; negates this number if
/// `negative`.
static int64_t align(uint64_t significand, int places, bool negative) {
  uint64_t cut = places >= 0     ? significand << places
                 : places <= -64 ? 0
                                 : significand >> -places;
  return negative ? -int64_t(cut) : int64_t(cut);
}

/// Returns the bits of total * 2^place in the format of results. A total of 0
/// becomes +0, as does a value that truncation makes 0.
static uint32_t round(int64_t total, int place, MatrixRounding rounding) {
  if (total == 0)
    return 0;
  const Format &to = getFormat(rounding);
  uint32_t sign = total < 0 ? to.getSign() : 0;
  uint64_t magnitude = total < 0 ? -uint64_t(total) : uint64_t(total);
  int bias = (1 << (to.exponentBits - 1)) - 1;
  int exponent = std::max(place + 63 - __builtin_clzll(magnitude), 1 - bias);
  if (exponent > bias)
    return sign | to.infinity;
  int places = place - (exponent - int(to.fraction));
  uint64_t cut = uint64_t(align(magnitude, places, false));
  if (rounding == MatrixRounding::ToF16 && places < 0) {
    // Rounds to nearest even. `lost` is the truncated part, and `half` is half
    // a unit of the last place.
    uint64_t half = places >= -64 ? uint64_t(1) << (-places - 1) : 0;
    uint64_t lost = places > -64 ? magnitude - (cut << -places) : magnitude;
    if (half && (lost > half || (lost == half && cut & 1)))
      ++cut;
  }
  if (rounding == MatrixRounding::ToE8M13)
    cut &= ~uint64_t(0x3ff);
  if (cut == 0)
    return rounding == MatrixRounding::ToF16 ? sign : 0;
  // Adding a normal number's leading one increments the exponent field, so the
  // field that is added here is one too small. A carry may increment it again,
  // even to infinity.
  return sign | uint32_t((uint64_t(exponent + bias - 1) << to.fraction) + cut);
}

/// Returns the bits of the sum of c and the products a[k] * b[k] for which
/// has(k) is true.
template <typename Has>
static uint32_t addBlock(const Significand *a, const Significand *b,
                         unsigned count, uint32_t c, const MatrixRule &rule,
                         Has has) {
  const Format &format = getFormat(rule.rounding);
  Significand addend = read(c, format.exponentBits, format.fraction);
  bool up = addend.infinite && !addend.negative;
  bool down = addend.infinite && addend.negative;
  bool isNan = addend.nan;
  int top = rule.floor;
  if (addend.significand)
    top = std::max(top, addend.exponent);
  for (unsigned k = 0; k < count; ++k) {
    const Significand &x = a[k], &y = b[k];
    if (!has(k))
      continue;
    bool isZero = !x.significand || !y.significand;
    bool infinite = x.infinite || y.infinite;
    isNan |= x.nan || y.nan || (infinite && isZero);
    up |= infinite && x.negative == y.negative;
    down |= infinite && x.negative != y.negative;
    if (!isZero)
      top = std::max(top, x.exponent + y.exponent);
  }
  if (isNan || (up && down))
    return format.nan;
  if (up || down)
    return (down ? format.getSign() : 0) | format.infinity;
  int fraction = int(rule.fraction);
  int64_t total = 0;
  if (addend.significand)
    total = align(addend.significand,
                  addend.exponent - top + fraction - int(format.fraction),
                  addend.negative);
  for (unsigned k = 0; k < count; ++k) {
    const Significand &x = a[k], &y = b[k];
    uint64_t product = uint64_t(x.significand) * y.significand;
    if (product && has(k))
      total += align(product,
                     x.exponent + y.exponent - top + fraction -
                         2 * int(elementFraction),
                     x.negative != y.negative);
  }
  return round(total, top - fraction, rule.rounding);
}

/// (M3) Returns the bits of x + y, rounded once to nearest even. x, y and the
/// sum are f16 if `rounding` is ToF16, otherwise f32.
static uint32_t addLate(uint32_t x, uint32_t y, MatrixRounding rounding) {
  if (rounding != MatrixRounding::ToF16) {
    float left, right;
    std::memcpy(&left, &x, sizeof x);
    std::memcpy(&right, &y, sizeof y);
    float sum = left + right;
    uint32_t bits;
    std::memcpy(&bits, &sum, sizeof sum);
    return sum != sum ? f32.nan : bits;
  }
  Significand numbers[] = {read(x, f16.exponentBits, f16.fraction),
                           read(y, f16.exponentBits, f16.fraction)};
  bool up = false, down = false;
  int64_t total = 0;
  constexpr int least = -24; // the exponent of the smallest subnormal
  for (const Significand &number : numbers) {
    if (number.nan)
      return f16.nan;
    up |= number.infinite && !number.negative;
    down |= number.infinite && number.negative;
    total +=
        align(number.significand, number.exponent - int(f16.fraction) - least,
              number.negative);
  }
  if (up || down)
    return up && down ? f16.nan : (down ? f16.getSign() : 0) | f16.infinity;
  if (total == 0) // -0 only if both are -0
    return x & y & f16.getSign();
  return round(total, least, rounding);
}

uint32_t repro_emulator::addProducts(const Significand *a, const Significand *b,
                                     unsigned count, uint32_t c,
                                     const MatrixRule &rule) {
  unsigned terms = rule.late ? 2 * rule.terms : rule.terms;
  for (unsigned first = 0; first < count; first += terms) {
    unsigned own = std::min(terms, count - first);
    auto add = [&](uint32_t to, auto has) {
      return addBlock(a + first, b + first, own, to, rule, has);
    };
    if (!rule.late) {
      c = add(c, [](unsigned) { return true; });
      continue;
    }
    uint32_t total = add(0, [](unsigned k) { return k % 4 < 2; });
    total = add(total, [](unsigned k) { return k % 4 >= 2; });
    c = addLate(total, c, rule.rounding);
  }
  return c;
}
