//===- MatrixSum.cpp - Sums of matrix units -------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/MatrixSum.h"

#include <algorithm>

using namespace repro_emulator;

static constexpr uint32_t infinity = 0x7f800000, nan = 0x7fffffff;
static constexpr unsigned f32Fraction = 23;

static constexpr unsigned getFraction(MatrixElement element) {
  return element == MatrixElement::BF16 ? 7 : 10;
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

Significand repro_emulator::readElement(uint32_t bits, MatrixElement element) {
  switch (element) {
  case MatrixElement::F16:
    return read(bits & 0xffff, 5, 10);
  case MatrixElement::BF16:
    return read(bits & 0xffff, 8, 7);
  case MatrixElement::TF32:
    return read(bits >> 13, 8, 10);
  }
  return {};
}

/// significand * 2^places, cut toward zero.
static int64_t align(uint64_t significand, int places, bool negative) {
  uint64_t cut = places >= 0     ? significand << places
                 : places <= -64 ? 0
                                 : significand >> -places;
  return negative ? -int64_t(cut) : int64_t(cut);
}

/// total * 2^place toward zero; what gives zero gives +0.
static uint32_t roundTowardZero(int64_t total, int place) {
  if (total == 0)
    return 0;
  uint32_t sign = total < 0 ? 0x80000000 : 0;
  uint64_t magnitude = total < 0 ? -uint64_t(total) : uint64_t(total);
  int exponent = std::max(place + 63 - __builtin_clzll(magnitude), -126);
  if (exponent > 127)
    return sign | infinity;
  uint32_t significand =
      uint32_t(align(magnitude, place - (exponent - int(f32Fraction)), false));
  if (significand == 0)
    return 0;
  // Without the leading one, which a subnormal has not.
  return sign | (uint32_t(exponent + 126) << f32Fraction) + significand;
}

static uint32_t addBlock(const Significand *a, const Significand *b,
                         unsigned count, uint32_t c, MatrixElement element,
                         const MatrixUnit &unit) {
  Significand addend = read(c, 8, f32Fraction);
  bool up = addend.infinite && !addend.negative;
  bool down = addend.infinite && addend.negative;
  bool isNan = addend.nan;
  int top = unit.getFloor();
  if (addend.significand)
    top = std::max(top, addend.exponent);
  for (unsigned k = 0; k < count; ++k) {
    const Significand &x = a[k], &y = b[k];
    bool isZero = !x.significand || !y.significand;
    bool infinite = x.infinite || y.infinite;
    isNan |= x.nan || y.nan || (infinite && isZero);
    up |= infinite && x.negative == y.negative;
    down |= infinite && x.negative != y.negative;
    if (!isZero)
      top = std::max(top, x.exponent + y.exponent);
  }
  if (isNan || (up && down))
    return nan;
  if (up || down)
    return down ? infinity | 0x80000000 : infinity;
  int fraction = int(unit.fraction), own = int(getFraction(element));
  int64_t total = 0;
  if (addend.significand)
    total = align(addend.significand,
                  addend.exponent - top + fraction - int(f32Fraction),
                  addend.negative);
  for (unsigned k = 0; k < count; ++k) {
    const Significand &x = a[k], &y = b[k];
    if (uint64_t product = uint64_t(x.significand) * y.significand)
      total +=
          align(product, x.exponent + y.exponent - top + fraction - 2 * own,
                x.negative != y.negative);
  }
  return roundTowardZero(total, top - fraction);
}

uint32_t repro_emulator::addProducts(const Significand *a, const Significand *b,
                                     unsigned count, uint32_t c,
                                     MatrixElement element,
                                     const MatrixUnit &unit) {
  unsigned terms = unit.getTerms(element);
  for (unsigned first = 0; first < count; first += terms)
    c = addBlock(a + first, b + first, std::min(terms, count - first), c,
                 element, unit);
  return c;
}
