//===- mac-array.cpp - Tests of the array of multipliers ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// REQUIRES: native-tests
// RUN: %native/simulator-mac-array
//
//===----------------------------------------------------------------------===//

#include "Simulator/MacArray.h"

#include "../Runtime/Expect.h"

#include <random>
#include <vector>

using namespace repro_simulator;

static mlir::repro::ManyCore getMachine(const char *name) {
  std::string error;
  auto machine = mlir::repro::getManyCore(name, error);
  EXPECT(error.empty());
  return *machine;
}

static void testProducts() {
  mlir::repro::ManyCore machine = getMachine("spinnaker2");
  std::mt19937 random(1);
  for (int64_t depth : {1, 7, 511}) {
    int64_t rows = 3, columns = 16;
    auto count = [](int64_t n) { return static_cast<size_t>(n); };
    std::vector<int8_t> x(count(rows * depth)), y(count(depth * columns));
    for (auto *bytes : {&x, &y})
      for (int8_t &byte : *bytes)
        byte = int8_t(random());
    std::vector<int32_t> sums(count(rows * columns), -1);
    MacArray array(machine);
    // y is transposed: its columns are contiguous.
    array.multiply({x.data(), depth, 1}, {y.data(), 1, depth}, sums.data(),
                   rows, columns, depth);
    EXPECT(array.getError().empty());
    EXPECT(array.getCycles() == machine.getMatrixCycles(depth));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += int64_t(x[size_t(i * depth + k)]) * y[size_t(j * depth + k)];
        EXPECT(sums[size_t(i * columns + j)] == sum);
      }
  }
}

/// (K4) The largest product is that of -128 and -128: 511 of them fit into 24
/// bits, 512 do not.
static void testOverflow() {
  mlir::repro::ManyCore machine = getMachine("spinnaker2");
  EXPECT(machine.getMostMatrixProducts() == 511);
  std::vector<int8_t> low(1024, -128), high(1024, 127);
  auto multiply = [&](const std::vector<int8_t> &y, int64_t depth,
                      int32_t &sum) {
    MacArray array(machine);
    array.multiply({low.data(), 0, 1}, {y.data(), 1, 0}, &sum, 1, 1, depth);
    return array.getError();
  };
  int32_t sum = 5;
  EXPECT(multiply(low, 511, sum).empty() && sum == 511 * 128 * 128);
  sum = 5;
  EXPECT_ERROR(multiply(low, 512, sum),
               "the sum of 512 products of bytes overflows an accumulator of "
               "24 bits; add at most 511 products");
  EXPECT(sum == 5);
  // The least sum is -2^23.
  EXPECT(multiply(high, 516, sum).empty() && sum == -516 * 128 * 127);
  EXPECT_ERROR(multiply(high, 517, sum), "the sum of 517 products");
  // A sum on the way overflows, and the last one would fit.
  std::vector<int8_t> turning(1024, -128);
  std::fill(turning.begin() + 512, turning.end(), 127);
  EXPECT_ERROR(multiply(turning, 1024, sum), "the sum of 512 products");
}

static void testSizes() {
  int8_t bytes[64] = {};
  int32_t sums[256];
  mlir::repro::ManyCore tiny = getMachine("tiny-2x2");
  MacArray array(tiny);
  array.multiply({bytes, 1, 0}, {bytes, 0, 1}, sums, 5, 4, 1);
  EXPECT_ERROR(array.getError(),
               "the array has 4 x 4 accumulators, but the product has 5 x 4");
  mlir::repro::ManyCore floats = getMachine("wormhole-n150");
  MacArray other(floats);
  other.multiply({bytes, 1, 0}, {bytes, 0, 1}, sums, 1, 1, 1);
  EXPECT_ERROR(other.getError(), "no array of multipliers of bytes");
}

/// Long sums take the measured efficiency, short ones the filling and draining.
static void testCycles() {
  mlir::repro::ManyCore machine = getMachine("spinnaker2");
  EXPECT(machine.getMatrixCycles(1) == 1 + (4 + 16 - 2) + 4);
  EXPECT(machine.getMatrixCycles(390) == 390 / 0.78);
}

int main() {
  testProducts();
  testOverflow();
  testSizes();
  testCycles();
}
