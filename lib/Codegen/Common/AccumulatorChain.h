//===- AccumulatorChain.h - Sums of matrix units, in integers ---*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (M1) to (M5) by the letter, for one result: a significand is an integer,
// a block is passed twice, first for the greatest exponent. Faster kernels fall
// back on it for what they cannot do.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_ACCUMULATORCHAIN_H
#define REPRO_CODEGEN_COMMON_ACCUMULATORCHAIN_H

#include "Codegen/Common/KernelBuilder.h"
#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro::kernels {

/// (M1) The exponent of the smallest normal value of elements of a type.
int64_t getLeastExponent(Type element);

/// The work of a product in a chain, in that of a fused multiply-add.
constexpr int64_t kChainWork = 8;

/// Which products a block, or half of a late one, adds: number j is the product
/// `first` + j, or the one that j is of those with k mod 4 in {0, 1} or {2, 3}.
struct BlockPart {
  Value first, count;
  int64_t half = -1; ///< of a late block; -1: it has no halves

  Value getProduct(KernelBuilder &b, Value j) const;
};

/// The parts of the block of `rule` that begins with product `first` and has no
/// product from `end` on.
SmallVector<BlockPart> getBlockParts(KernelBuilder &b, FdpaAttr rule,
                                     Value first, Value end);

/// (M1) A chain of blocks of products whose factors are elements of two types.
class AccumulatorChain {
public:
  using Load = function_ref<Value(Value k)>; ///< an element, extended to f32

  AccumulatorChain(KernelBuilder &b, FdpaAttr rule, Type x, Type y);

  /// The value c after the products [start, end); a NaN may be any NaN.
  Value add(Value start, Value end, Value c, Load loadX, Load loadY);
  /// (M4) The result, not rounded to its type, of `n` products, at least one,
  /// in chunks, of which the last one may be shorter.
  Value addChunks(int64_t n, int64_t chunk, Value init, Load loadX, Load loadY);

  /// The scale of product k: of f8E4M3FN, or an f32 that is one of f8E8M0FNU.
  struct Scale {
    Type type;
    Load load;
  };
  /// (M2) The value c after `n` products with scales, from +0; those of a group
  /// have the same.
  Value addScaled(int64_t n, Load loadX, Load loadY, const Scale &scaleX,
                  const Scale &scaleY);

private:
  /// (-1)^negative * significand * 2^(exponent - fraction).
  struct Number {
    Value negative, significand, exponent;
    int64_t fraction;
  };
  /// A significand of 64 bits.
  struct Product {
    Number number;
    Value special; ///< an infinity or a NaN, else a zero
  };
  /// The product or group of products with a number in its block.
  using GetProduct = function_ref<Product(Value j)>;

  Value addBlock(Value count, Value c, GetProduct getProduct);
  /// (M1) T as a magnitude times 2^place.
  struct Sum {
    Value negative, magnitude, place;
  };
  Sum addAligned(Value count, Value top, const Number &c,
                 GetProduct getProduct);
  /// Without a fraction, in digits of 32 bits.
  Sum addExactly(Value count, const Number &c, GetProduct getProduct);
  void addToDigits(Value negative, Value magnitude, Value place);
  Sum takeDigits();
  Value round(const Sum &sum);

  Number split(Value value, int64_t leastExponent);
  Product multiply(Value x, Value y);
  /// (M2) The exact sum of the products [start, end), of Exp 0.
  Product addGroup(Value start, Value end, Load loadX, Load loadY);
  /// (M2) A product times the scale of product k.
  Product scale(const Product &product, const Scale &by, Value k);
  Value isNonzero(Value integer);
  Value whereSpecial(Value condition, Value value);

  Value i32(int64_t value);
  Value i64(int64_t value);
  Value f32(double value);
  Value extend(Value value);
  Value clamp(Value value, int64_t low, int64_t high);
  Value negateIf(Value condition, Value value);
  Value powerOfTwo(Value exponent);

  KernelBuilder &b;
  FdpaAttr rule;
  Type x, y;
  int64_t leastX, leastY;
  Value digits; ///< null with a fraction
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_ACCUMULATORCHAIN_H
