//===- MacArray.h - The array of multipliers of a core ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The model of a matrix array that multiplies signed bytes. The array of a real
// core wraps where the sum in an accumulator overflows; the model refuses it.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_SIMULATOR_MACARRAY_H
#define REPRO_SIMULATOR_MACARRAY_H

#include "Runtime/Plan.h"
#include "Target/ManyCore.h"

namespace repro_simulator {

using ::repro_runtime::Error;

/// A matrix of signed bytes in the core's memory: element (i, j) is at
/// data[i * stride + j * step].
struct ByteMatrix {
  const int8_t *data;
  int64_t stride, step;
};

class MacArray {
public:
  explicit MacArray(const mlir::repro::ManyCore &machine) : machine(machine) {}

  /// Sets `sums`, row-major, to the product of `x` (rows x depth) and `y`
  /// (depth x columns). Notes an error, and leaves `sums` as they are, if the
  /// array does not have as many accumulators, or if an accumulator overflows.
  void multiply(ByteMatrix x, ByteMatrix y, int32_t *sums, int64_t rows,
                int64_t columns, int64_t depth);

  /// Returns the first error; empty if there is none.
  const Error &getError() const { return error; }
  /// Returns the cycles of all products, with filling and draining.
  double getCycles() const { return cycles; }

  /// While an object of this class exists, the kernels that the thread runs use
  /// the array.
  class Use {
  public:
    explicit Use(MacArray &array);
    ~Use();
    Use(const Use &) = delete;
    Use &operator=(const Use &) = delete;
  };

private:
  const mlir::repro::ManyCore &machine;
  Error error;
  double cycles = 0;
};

} // namespace repro_simulator

extern "C" {

/// Multiplies on the array of the core that runs the calling kernel. `x`, `y`
/// and `sums` are addresses; the other arguments are those of `multiply`.
void repro_multiply_bytes(int64_t x, int64_t xRow, int64_t xDepth, int64_t y,
                          int64_t yDepth, int64_t yColumn, int64_t sums,
                          int64_t rows, int64_t columns, int64_t depth);
}

#endif // REPRO_SIMULATOR_MACARRAY_H
