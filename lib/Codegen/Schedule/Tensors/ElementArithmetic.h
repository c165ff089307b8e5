//===- ElementArithmetic.h - Elements of blocks in bodies -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (Q1), (Q3) Codes of elements from f32 and back, as arithmetic of f32 and of
// i32 on its bits. Targets have it for f8, f16 and bf16 (V1); here are the
// formats that no target has, and the roundings beside to nearest even.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_ELEMENTARITHMETIC_H
#define REPRO_CODEGEN_SCHEDULE_TENSORS_ELEMENTARITHMETIC_H

#include "dialects/Repro/IR/Repro.h"
#include "dialects/Repro/IR/Scalar.h"

namespace mlir::repro {

/// Of an f32.
inline constexpr int kSingleFraction = 23;
inline constexpr int kSingleBias = 127;

/// Whether tensors of a program have elements of the type that no target has:
/// their codes are bytes.
bool isByteFormat(Type element);

/// (Q1) A format of elements as numbers.
struct ElementFormat {
  explicit ElementFormat(Type element, bool symmetric = true);

  Type type;
  bool isFixed;     ///< integers in units of 2^-6
  bool isSymmetric; ///< of integers: without the least one
  int width;
  int fractionBits; ///< M
  int minExponent;  ///< of normal numbers
  int maxExponent;  ///< emax
  double largest;
  uint32_t largestCode;
  std::optional<uint32_t> infinityCode, nanCode;
};

/// Operations on i32 and on the bits of f32.
class FloatWords {
public:
  explicit FloatWords(ImplicitLocOpBuilder &builder) : builder(builder) {}

  ImplicitLocOpBuilder &getBuilder() const { return builder; }
  Value constant(uint32_t value) const;
  Scalar f32(double value) const;
  Value bitsOf(Scalar number) const;
  Scalar floatOf(Value bits) const;
  /// 2^exponent for an i32 from -126 to 127.
  Scalar powerOfTwo(Value exponent) const;

  Value add(Value x, Value y) const;
  Value sub(Value x, Value y) const;
  Value both(Value x, Value y) const;   ///< bitwise and
  Value either(Value x, Value y) const; ///< bitwise or
  Value left(Value x, unsigned by) const;
  Value right(Value x, unsigned by) const; ///< without the sign
  Value select(Value condition, Value x, Value y) const;
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) const;
  Value compare(arith::CmpFPredicate predicate, Scalar x, Scalar y) const;
  Value isNaN(Scalar x) const;
  /// The lesser of both; NaN stays.
  Scalar atMost(Scalar x, double most) const;

private:
  ImplicitLocOpBuilder &builder;
};

/// (Q1) The f32 of a code: of i8 for a byte format and for integers, else of
/// the type itself.
Scalar decodeElement(const FloatWords &words, Value code,
                     const ElementFormat &format);
/// (Q1) The f32 of a byte of f8E8M0FNU.
Scalar decodePower(const FloatWords &words, Value byte);

/// The integer type for the values of codes in units of the least one; null for
/// f8, the values of which are too far apart.
IntegerType getUnitType(Type element);
/// The exponent of that unit.
int getUnitExponent(const ElementFormat &format);
/// The value of a code in these units.
Value decodeInteger(const FloatWords &words, Value code,
                    const ElementFormat &format);

/// (Q3) The code of an f32, as decodeElement takes it. `random` are the bits of
/// the element as an i32, null but for stochastic rounding.
Value roundElement(const FloatWords &words, Scalar number,
                   const ElementFormat &format, RoundingAttr rounding,
                   Value random = {});

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_ELEMENTARITHMETIC_H
