//===- MatrixSum.h - Sums of matrix units -----------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_MATRIXSUM_H
#define REPRO_EMULATOR_MATRIXSUM_H

#include "Target/MatrixUnit.h"

namespace repro_emulator {

using repro_target::MatrixElement;
using repro_target::MatrixUnit;

/// (M1) A number: (-1)^negative * significand * 2^(exponent - its format's
/// bits of fraction).
struct Significand {
  uint32_t significand = 0;
  int32_t exponent = 0;
  bool negative = false, infinite = false, nan = false;
};

/// The element in the low bits of a register; of tf32 the hardware does not
/// read the 13 lowest.
Significand readElement(uint32_t bits, MatrixElement element);

/// (M1) The bits of the f32 that `count` products a[k] * b[k] and
/// those of the f32 c give in the blocks of a class.
uint32_t addProducts(const Significand *a, const Significand *b, unsigned count,
                     uint32_t c, MatrixElement element, const MatrixUnit &unit);

} // namespace repro_emulator

#endif // REPRO_EMULATOR_MATRIXSUM_H
