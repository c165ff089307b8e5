//===- MacArray.cpp - The array of multipliers of a core ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simulator/MacArray.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

using namespace repro_simulator;

/// The array of the core that this thread simulates; null if there is none.
static thread_local MacArray *current = nullptr;

MacArray::Use::Use(MacArray &array) { current = &array; }
MacArray::Use::~Use() { current = nullptr; }

/// (K4) Refuses each sum that an accumulator cannot hold.
void MacArray::multiply(ByteMatrix x, ByteMatrix y, int32_t *sums, int64_t rows,
                        int64_t columns, int64_t depth) {
  auto fail = [&](const Error &message) {
    if (error.empty())
      error = message;
  };
  if (machine.hasFloatMatrices || machine.matrixOperandBits != 8)
    return fail("the cores have no array of multipliers of bytes");
  if (rows > machine.matrixRows || columns > machine.matrixColumns)
    return fail("the array has " + std::to_string(machine.matrixRows) + " x " +
                std::to_string(machine.matrixColumns) +
                " accumulators, but the product has " + std::to_string(rows) +
                " x " + std::to_string(columns) + " results");
  cycles += machine.getMatrixCycles(depth);
  int64_t least = -(int64_t(1) << (machine.getMatrixSumBits() - 1));
  int64_t largest = -least - 1;
  bool mayOverflow = depth > machine.getMostMatrixProducts();
  std::vector<int64_t> totals(static_cast<size_t>(columns));
  std::vector<int32_t> results;
  for (int64_t i = 0; i < rows; ++i) {
    std::fill(totals.begin(), totals.end(), 0);
    for (int64_t k = 0; k < depth; ++k) {
      int64_t factor = x.data[i * x.stride + k * x.step];
      const int8_t *row = y.data + k * y.stride;
      for (int64_t j = 0; j < columns; ++j)
        totals[size_t(j)] += factor * row[j * y.step];
      // Each sum on the way has to fit, too.
      auto fits = [&](int64_t total) {
        return total >= least && total <= largest;
      };
      if (mayOverflow && !std::all_of(totals.begin(), totals.end(), fits))
        return fail("the sum of " + std::to_string(k + 1) +
                    " products of bytes overflows an accumulator of " +
                    std::to_string(machine.getMatrixSumBits()) +
                    " bits; add at most " +
                    std::to_string(machine.getMostMatrixProducts()) +
                    " products before the core takes the sum");
    }
    for (int64_t total : totals)
      results.push_back(int32_t(total));
  }
  std::copy(results.begin(), results.end(), sums);
}

void repro_multiply_bytes(int64_t x, int64_t xRow, int64_t xDepth, int64_t y,
                          int64_t yDepth, int64_t yColumn, int64_t sums,
                          int64_t rows, int64_t columns, int64_t depth) {
  // Only the simulator of cores resolves this function.
  if (!current)
    std::abort();
  current->multiply({reinterpret_cast<const int8_t *>(x), xRow, xDepth},
                    {reinterpret_cast<const int8_t *>(y), yDepth, yColumn},
                    reinterpret_cast<int32_t *>(sums), rows, columns, depth);
}
