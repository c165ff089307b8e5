//===- MatrixUnit.h - Which sums matrix units of devices have ---*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (M3) What mma.sync adds to an f32, by class. Plain C++17 without LLVM: the
// compiler and the emulator read it.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_MATRIXUNIT_H
#define REPRO_TARGET_MATRIXUNIT_H

#include <cstdint>
#include <string_view>

namespace repro_target {

enum class MatrixElement : uint8_t { F16, BF16, TF32 };

/// (M3) A class: `fdpa<terms, fraction, rz_f32, floor>` for each element.
struct MatrixUnit {
  std::string_view name;
  unsigned terms[3]; ///< products of a block, by element; 0: has none of it
  unsigned fraction;

  /// Instructions of 16 elements of K came with those of bf16.
  bool hasDepth16() const { return terms[unsigned(MatrixElement::BF16)] != 0; }
  int getFloor() const { return -108 - int(fraction); }
  unsigned getTerms(MatrixElement element) const {
    return terms[unsigned(element)];
  }
};

inline constexpr MatrixUnit matrixUnits[] = {
    {"volta", {4, 0, 0}, 23},    {"turing", {8, 0, 0}, 24},
    {"ampere", {8, 8, 4}, 24},   {"ada", {8, 8, 4}, 24},
    {"hopper", {16, 16, 8}, 25}, {"blackwell", {16, 16, 8}, 25},
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
      {"sm_70", "volta"},      {"sm_72", "volta"},      {"sm_75", "turing"},
      {"sm_80", "ampere"},     {"sm_86", "ampere"},     {"sm_87", "ampere"},
      {"sm_89", "ada"},        {"sm_90", "hopper"},     {"sm_100", "blackwell"},
      {"sm_103", "blackwell"}, {"sm_120", "blackwell"},
  };
  for (auto &[name, unit] : classes)
    if (architecture == name)
      return findMatrixUnit(unit);
  return nullptr;
}

} // namespace repro_target

#endif // REPRO_TARGET_MATRIXUNIT_H
