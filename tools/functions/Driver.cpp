//===- Driver.cpp - Exhaustive evaluation of elementary functions ---------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// See https://llvm.org/LICENSE.txt for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The inner loops of check.py and expect.py. The 2^32 inputs are cut into
// blocks of 2^24. For each input, a hash of the input and its result is
// computed; the sum of these hashes, modulo 2^64, represents the block. A
// result that is determined later can therefore be added to the sum.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <cstring>

namespace {
constexpr int kChunk = 65536;
constexpr uint32_t kBlock = 1u << 24;

uint32_t bitsOf(float x) {
  uint32_t u;
  std::memcpy(&u, &x, sizeof(u));
  return u;
}

/// (V4) Returns the bits of a result. All NaNs have the same bits.
uint32_t canonical(float x) { return x != x ? 0x7fc00000 : bitsOf(x); }

uint64_t mix(uint32_t input, uint32_t result) {
  uint64_t m = input * 0x9e3779b97f4a7c15 + result * 0xc2b2ae3d27d4eb4f;
  m ^= m >> 32;
  m *= 0xd6e8feb86659fd93;
  return m ^ m >> 29;
}

alignas(64) float inputs[kChunk], results[kChunk];

void fill(uint32_t first) {
  for (int i = 0; i < kChunk; ++i) {
    uint32_t u = first + i;
    std::memcpy(&inputs[i], &u, sizeof(u));
  }
}
} // namespace

extern "C" uint64_t mix_result(uint32_t input, uint32_t result) {
  return mix(input, result);
}

/// Returns the sum of a block whose results are those of a compiled function.
/// The function processes 65536 elements per call.
extern "C" uint64_t compiled_block(void (*function)(float *, float *),
                                   uint32_t block) {
  uint64_t sum = 0;
  for (uint32_t offset = 0; offset < kBlock; offset += kChunk) {
    uint32_t first = block * kBlock + offset;
    fill(first);
    function(inputs, results);
    for (int i = 0; i < kChunk; ++i)
      sum += mix(first + i, canonical(results[i]));
  }
  return sum;
}

typedef double Lanes __attribute__((vector_size(64)));
typedef float Floats __attribute__((vector_size(32)));

extern "C" Lanes rsqrt_lanes(Lanes x) {
  for (int i = 0; i < 8; ++i)
    x[i] = 1 / __builtin_sqrt(x[i]);
  return x;
}

/// Returns the sum of a block. The result for an input is that of `function`,
/// an f64 function of the C library on 8 lanes, rounded to f32. Leaves out the
/// inputs for which an error of `margin` could change the rounding: stores them
/// in `undecided`, and their number in `count`.
extern "C" uint64_t library_block(Lanes (*function)(Lanes), uint32_t block,
                                  double margin, uint32_t *undecided,
                                  int64_t *count) {
  static float below[kChunk], above[kChunk];
  uint64_t sum = 0;
  *count = 0;
  for (uint32_t offset = 0; offset < kBlock; offset += kChunk) {
    uint32_t first = block * kBlock + offset;
    fill(first);
    for (int i = 0; i < kChunk; i += 8) {
      Floats x;
      std::memcpy(&x, inputs + i, sizeof(x));
      Lanes y = function(__builtin_convertvector(x, Lanes));
      Floats r = __builtin_convertvector(y, Floats);
      Floats a = __builtin_convertvector(y * (1 - margin), Floats);
      Floats b = __builtin_convertvector(y * (1 + margin), Floats);
      std::memcpy(results + i, &r, sizeof(r));
      std::memcpy(below + i, &a, sizeof(a));
      std::memcpy(above + i, &b, sizeof(b));
    }
    for (int i = 0; i < kChunk; ++i) {
      if (below[i] < above[i] || above[i] < below[i])
        undecided[(*count)++] = first + i;
      else
        sum += mix(first + i, canonical(results[i]));
    }
  }
  return sum;
}
