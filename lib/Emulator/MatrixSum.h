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

/// (M1) A number: (-1)^negative * significand * 2^(exponent - fraction), of
/// which elements have elementFraction bits and c those of its format.
struct Significand {
  uint32_t significand = 0;
  int32_t exponent = 0;
  bool negative = false, infinite = false, nan = false;
};

/// Of an element in a register.
constexpr unsigned getBits(MatrixElement element) {
  return element == MatrixElement::TF32 ? 32 : isFloat8(element) ? 8 : 16;
}

/// Enough for every element.
constexpr unsigned elementFraction = 10;

/// The element in the low bits of a register; of tf32 the hardware does not
/// read the 13 lowest. For late sums it makes an f16 of the element, by whose
/// exponents subnormals of e4m3 are aligned.
Significand readElement(uint32_t bits, MatrixElement element, bool late);

/// (M1) The bits, of f32 or f16, that `count` products a[k] * b[k] and c give
/// by a rule.
uint32_t addProducts(const Significand *a, const Significand *b, unsigned count,
                     uint32_t c, const MatrixRule &rule);

} // namespace repro_emulator

#endif // REPRO_EMULATOR_MATRIXSUM_H
