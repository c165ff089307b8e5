//===- MatrixUnit.h - Accumulation rules of matrix units --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (M3) The rules by which mma.sync adds to an f32 or f16 accumulator, per
// class. This file is plain C++17 without LLVM, because the compiler and the
// emulator include it.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_MATRIXUNIT_H
#define REPRO_TARGET_MATRIXUNIT_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace repro_target {

/// The element types of matrix instructions.
enum class MatrixElement : uint8_t { F16, BF16, TF32, E4M3, E5M2 };

/// The names of the element types in PTX.
inline constexpr std::string_view matrixElementNames[] = {"f16", "bf16", "tf32",
                                                          "e4m3", "e5m2"};

constexpr bool isFloat8(MatrixElement element) {
  return element == MatrixElement::E4M3 || element == MatrixElement::E5M2;
}

/// (M1) How the sum of a block is rounded, which determines the format of c.
enum class MatrixRounding : uint8_t { ToF32, ToE8M13, ToF16 };

/// The parameters of `fdpa` (M1), and whether c is added late (M3).
struct MatrixRule {
  unsigned terms = 0, fraction = 0;
  int floor = 0;
  MatrixRounding rounding = MatrixRounding::ToF32;
  bool late = false;
};

/// (M3) A class of matrix units on which mma.sync computes the same sums.
struct MatrixUnit {
  std::string_view name;
  unsigned terms[3]; ///< for f16, bf16 and tf32; 0 if unsupported
  unsigned fraction; ///< fraction bits of these types
  /// The rule for f8; `terms` is 0 if the class does not support f8, or if its
  /// rule is not known. For `hopper` and `blackwell`, this is the rule that
  /// (M3) calls `hopper_mma`.
  MatrixRule float8;

  /// Whether the class has instructions that multiply 16 elements of K. All
  /// classes with bf16 do.
  bool hasDepth16() const { return terms[unsigned(MatrixElement::BF16)] != 0; }

  /// Returns the rule for factors of type `element` and results in f32, or in
  /// f16 if `toF16`; std::nullopt if the class has no such rule.
  std::optional<MatrixRule> getRule(MatrixElement element,
                                    bool toF16 = false) const {
    MatrixRule rule = float8;
    if (!isFloat8(element))
      rule = {terms[unsigned(element)], fraction, -108 - int(fraction)};
    if (!rule.terms ||
        (toF16 && element != MatrixElement::F16 && !isFloat8(element)))
      return std::nullopt;
    if (toF16) {
      rule.rounding = MatrixRounding::ToF16;
      rule.floor += 112;
    }
    return rule;
  }
};

inline constexpr MatrixUnit matrixUnits[] = {
    {"volta", {4, 0, 0}, 23, {}},
    {"turing", {8, 0, 0}, 24, {}},
    {"ampere", {8, 8, 4}, 24, {}},
    {"ada", {8, 8, 4}, 24, {16, 13, -132, MatrixRounding::ToE8M13}},
    {"hopper", {16, 16, 8}, 25, {16, 25, -133, MatrixRounding::ToF32, true}},
    {"blackwell", {16, 16, 8}, 25, {16, 25, -133, MatrixRounding::ToF32, true}},
    // This class has f8 instructions that other classes lack. No results of
    // these instructions have been recorded, so their rule is not known.
    {"blackwell_rtx", {16, 16, 8}, 25, {}},
};

/// Returns the class with that name, or null.
constexpr const MatrixUnit *findMatrixUnit(std::string_view name) {
  for (const MatrixUnit &unit : matrixUnits)
    if (unit.name == name)
      return &unit;
  return nullptr;
}

/// Returns the class of an architecture such as sm_90, or null if unknown.
constexpr const MatrixUnit *getMatrixUnitOf(std::string_view architecture) {
  constexpr std::string_view classes[][2] = {
      {"sm_70", "volta"},
      {"sm_72", "volta"},
      {"sm_75", "turing"},
      {"sm_80", "ampere"},
      {"sm_86", "ampere"},
      {"sm_87", "ampere"},
      {"sm_89", "ada"},
      {"sm_90", "hopper"},
      {"sm_100", "blackwell"},
      {"sm_103", "blackwell"},
      {"sm_120", "blackwell_rtx"},
  };
  for (auto &[name, unit] : classes)
    if (architecture == name)
      return findMatrixUnit(unit);
  return nullptr;
}

} // namespace repro_target

#endif // REPRO_TARGET_MATRIXUNIT_H
