//===- routines.cpp - Exact routines that kernels call --------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// REQUIRES: native-tests
// RUN: %native/runtime-routines
//
//===----------------------------------------------------------------------===//

#include "Runtime/Routines.h"

#include "Expect.h"

#include <cmath>
#include <cstring>
#include <random>

static uint64_t toBits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

static double fromBits(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static bool isSame(double x, double y) {
  return (std::isnan(x) && std::isnan(y)) || toBits(x) == toBits(y);
}

/// Zero, infinity, NaN, the limits of subnormal and normal numbers, and small
/// ordinary numbers.
static const double edges[] = {0.0,       1.0,
                               1.5,       3.0,
                               0x1p-1074, 0x1.fffffffffffffp-1023,
                               0x1p-1022, 0x1.fffffffffffffp1023,
                               HUGE_VAL,  NAN};

static void testEdges() {
  for (double a : edges)
    for (double b : edges)
      for (double x : {a, -a})
        for (double y : {b, -b}) {
          EXPECT(isSame(repro_fmod(x, y), std::fmod(x, y)));
          for (double c : edges)
            for (double z : {c, -c})
              EXPECT(isSame(repro_fma(x, y, z), std::fma(x, y, z)));
        }
}

/// Draws z with an exponent close to that of x y, so that the digits of z and x
/// y overlap in the sum.
static void testRandom() {
  std::mt19937_64 random(1);
  auto draw = [&](int64_t exponent) {
    uint64_t sign = random() << 63, digits = random() >> 12;
    return fromBits(sign | uint64_t(exponent) << 52 | digits);
  };
  for (unsigned i = 0; i < 100000; ++i) {
    int64_t p = random() % 2047, q = random() % 2047;
    double x = draw(p), y = draw(q);
    int64_t sum = p + q - 1023 + int64_t(random() % 120) - 60;
    double z = draw(std::min<int64_t>(std::max<int64_t>(sum, 0), 2046));
    EXPECT(isSame(repro_fma(x, y, z), std::fma(x, y, z)));
    EXPECT(isSame(repro_fmod(x, y), std::fmod(x, y)));
  }
}

int main() {
  testEdges();
  testRandom();
}
