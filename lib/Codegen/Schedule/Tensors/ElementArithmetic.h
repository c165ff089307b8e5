//===- ElementArithmetic.h - Arithmetic of block elements -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (Q1), (Q3) Converts f32 to element codes and back, in arithmetic on f32 and
// on the bits of f32 as i32. Targets convert f8, f16 and bf16 themselves (V1);
// this file covers the formats that no target supports and the roundings other
// than to nearest even.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_ELEMENTARITHMETIC_H
#define REPRO_CODEGEN_SCHEDULE_TENSORS_ELEMENTARITHMETIC_H

#include "dialects/Repro/IR/Repro.h"
#include "dialects/Repro/IR/Scalar.h"

namespace mlir::repro {

/// Number of fraction bits and exponent bias of f32.
inline constexpr int kSingleFraction = 23;
inline constexpr int kSingleBias = 127;

/// Whether no target supports the element type, so that tensors of this type
/// contain their codes as bytes.
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
  /// Returns 2^exponent; `exponent` is an i32 from -126 to 127.
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
  /// Returns the minimum of `x` and `most`, or NaN if `x` is NaN.
  Scalar atMost(Scalar x, double most) const;

private:
  ImplicitLocOpBuilder &builder;
};

/// (Q1) Decodes a code to f32. The code is an i8 for byte formats and integers,
/// otherwise a value of the element type itself.
Scalar decodeElement(const FloatWords &words, Value code,
                     const ElementFormat &format);
/// (Q1) Decodes a byte of f8E8M0FNU to f32.
Scalar decodePower(const FloatWords &words, Value byte);

/// Returns the integer type that represents every value of the format in units
/// of the least one; null for f8, whose values span too many binades.
IntegerType getUnitType(Type element);
/// Returns the exponent of the unit that `getUnitType` assumes.
int getUnitExponent(const ElementFormat &format);
/// Decodes a code to an integer in these units.
Value decodeInteger(const FloatWords &words, Value code,
                    const ElementFormat &format);

/// (Q3) Rounds an f32 to a code of the type that decodeElement accepts.
/// `random` is an i32 with the random bits of the element; null unless rounding
/// is stochastic.
Value roundElement(const FloatWords &words, Scalar number,
                   const ElementFormat &format, RoundingAttr rounding,
                   Value random = {});

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_ELEMENTARITHMETIC_H
