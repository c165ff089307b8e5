//===- MatrixUnit.h - Which sums matrix units of devices have ---*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (M3) What mma.sync adds to an f32 or an f16, by class. Plain C++17 without
// LLVM: the compiler and the emulator read it.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_MATRIXUNIT_H
#define REPRO_TARGET_MATRIXUNIT_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace repro_target {

enum class MatrixElement : uint8_t { F16, BF16, TF32, E4M3, E5M2 };

/// As PTX has them.
inline constexpr std::string_view matrixElementNames[] = {"f16", "bf16", "tf32",
                                                          "e4m3", "e5m2"};

constexpr bool isFloat8(MatrixElement element) {
  return element == MatrixElement::E4M3 || element == MatrixElement::E5M2;
}

/// (M1) How the sum of a block is rounded, and of which format c is.
enum class MatrixRounding : uint8_t { ToF32, ToE8M13, ToF16 };

/// (M1), (M3) `fdpa<terms, fraction, rounding, floor>`, late or not.
struct MatrixRule {
  unsigned terms = 0, fraction = 0;
  int floor = 0;
  MatrixRounding rounding = MatrixRounding::ToF32;
  bool late = false;
};

/// (M3) A class, by the sums of its mma.sync.
struct MatrixUnit {
  std::string_view name;
  unsigned terms[3]; ///< of f16, bf16 and tf32; 0: has none of it
  unsigned fraction; ///< of these
  /// f8, without terms where it has none or nothing is known: of `hopper` and
  /// `blackwell` it is that of `hopper_mma`.
  MatrixRule float8;

  /// Instructions of 16 elements of K came with those of bf16.
  bool hasDepth16() const { return terms[unsigned(MatrixElement::BF16)] != 0; }

  /// The rule for elements with results in f32 or f16, if there is one.
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
    // Its instructions of f8 are its own, and nothing recorded tells of them.
    {"blackwell_rtx", {16, 16, 8}, 25, {}},
};

/// Null if there is no such class.
constexpr const MatrixUnit *findMatrixUnit(std::string_view name) {
  for (const MatrixUnit &unit : matrixUnits)
    if (unit.name == name)
      return &unit;
  return nullptr;
}

/// The class of devices of an architecture such as sm_90; null if unknown.
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
