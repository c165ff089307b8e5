//===- ElementArithmetic.h - Arithmetic of block elements -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (Q1), (Q3) Converts f32 to codes of elements and back, with arithmetic on f32
// and on the bits of f32 as i32. Targets convert f8, f16 and bf16 themselves
// (V1). This file covers the formats that no target supports, and rounding
// other than to nearest even.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_ELEMENTARITHMETIC_H
#define REPRO_CODEGEN_SCHEDULE_TENSORS_ELEMENTARITHMETIC_H

#include "dialects/Repro/IR/Repro.h"
#include "dialects/Repro/IR/Scalar.h"

namespace mlir::repro {

/// The number of fraction bits and the exponent bias of f32.
inline constexpr int kSingleFraction = 23;
inline constexpr int kSingleBias = 127;

/// Whether no target supports the element type. Tensors of such a type hold one
/// code per byte.
bool isByteFormat(Type element);

/// (Q1) The numeric properties of an element format.
struct ElementFormat {
  explicit ElementFormat(Type element, bool symmetric = true);

  Type type;
  bool isFixed;     ///< integers in units of 2^-6
  bool isSymmetric; ///< excludes the least value; for integers only
  int width;
  int fractionBits; ///< M
  int minExponent;  ///< of normal numbers
  int maxExponent;  ///< emax
  double largest;
  uint32_t largestCode;
  std::optional<uint32_t> infinityCode, nanCode;
};

/// Builds operations on i32 and on the bits of f32.
class FloatWords {
public:
  explicit FloatWords(ImplicitLocOpBuilder &builder) : builder(builder) {}

  ImplicitLocOpBuilder &getBuilder() const { return builder; }
  Value constant(uint32_t value) const;
  Scalar f32(double value) const;
  Value bitsOf(Scalar number) const;
  Scalar floatOf(Value bits) const;
  /// Returns 2^exponent. `exponent` is an i32 in [-126, 127].
  Scalar powerOfTwo(Value exponent) const;

  Value add(Value x, Value y) const;
  Value sub(Value x, Value y) const;
  Value both(Value x, Value y) const;   ///< bitwise and
  Value either(Value x, Value y) const; ///< bitwise or
  Value left(Value x, unsigned by) const;
  Value right(Value x, unsigned by) const; ///< logical shift: fills with zeros
  Value select(Value condition, Value x, Value y) const;
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) const;
  Value compare(arith::CmpFPredicate predicate, Scalar x, Scalar y) const;
  Value isNaN(Scalar x) const;
  /// Returns the smaller of `x` and `most`, or NaN if `x` is NaN.
  Scalar atMost(Scalar x, double most) const;

private:
  ImplicitLocOpBuilder &builder;
};

/// (Q1) Returns the f32 value of a code. The code is an i8 for byte formats and
/// integers, and a value of the element type for other formats.
Scalar decodeElement(const FloatWords &words, Value code,
                     const ElementFormat &format);
/// (Q1) Returns the f32 value of a byte of f8E8M0FNU, which is a power of two.
Scalar decodePower(const FloatWords &words, Value byte);

/// Returns an integer type that holds every value of the format as a multiple
/// of its least positive value (the unit). Null for f8, whose range is too
/// large.
IntegerType getUnitType(Type element);
/// Returns n if the unit (`getUnitType`) is 2^n.
int getUnitExponent(const ElementFormat &format);
/// Returns the value of a code as an integer number of units (`getUnitType`).
Value decodeInteger(const FloatWords &words, Value code,
                    const ElementFormat &format);

/// (Q3) Returns the code to which an f32 is rounded, in the form that
/// decodeElement accepts. `random` is an i32 with the random bits of the
/// element for stochastic rounding; otherwise it is null.
Value roundElement(const FloatWords &words, Scalar number,
                   const ElementFormat &format, RoundingAttr rounding,
                   Value random = {});

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_ELEMENTARITHMETIC_H
