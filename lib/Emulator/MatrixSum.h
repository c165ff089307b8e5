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
using repro_target::MatrixRule;
using repro_target::MatrixUnit;

/// (M1) A number (-1)^negative * significand * 2^(exponent - fraction).
/// `fraction` is elementFraction for elements, and the number of fraction bits
/// of c's format for c.
struct Significand {
  uint32_t significand = 0;
  int32_t exponent = 0;
  bool negative = false, infinite = false, nan = false;
};

/// Returns the number of bits that an element takes in a register.
constexpr unsigned getBits(MatrixElement element) {
  return element == MatrixElement::TF32 ? 32 : isFloat8(element) ? 8 : 16;
}

/// The maximum number of fraction bits of an element type.
constexpr unsigned elementFraction = 10;

/// Returns the element in the low bits of a register. As on devices, the 13
/// lowest bits of a tf32 are ignored. If `late`, elements are converted to f16,
/// which changes the exponents of e4m3 subnormals.
Significand readElement(uint32_t bits, MatrixElement element, bool late);

/// (M1) Returns the bits, in f32 or f16, of the sum of c and the `count`
/// products a[k] * b[k] under `rule`.
uint32_t addProducts(const Significand *a, const Significand *b, unsigned count,
                     uint32_t c, const MatrixRule &rule);

} // namespace repro_emulator

#endif // REPRO_EMULATOR_MATRIXSUM_H
