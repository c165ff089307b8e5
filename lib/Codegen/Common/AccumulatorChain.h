//===- AccumulatorChain.h - Integer sums of matrix units --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements (M1) to (M5) literally, one result at a time, with integers as
// significands. Each block of products is traversed twice: first to find the
// greatest exponent, then to add. Faster kernels use this code for the cases
// that they do not support.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_ACCUMULATORCHAIN_H
#define REPRO_CODEGEN_COMMON_ACCUMULATORCHAIN_H

#include "Codegen/Common/KernelBuilder.h"
#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro::kernels {

/// (M1) Returns the exponent of the smallest normal number of an element type.
int64_t getLeastExponent(Type element);

/// The cost of adding a product with AccumulatorChain, relative to an fma.
constexpr int64_t kChainWork = 8;

/// The products of a block, or of one half of a late block (M3): half 0 has the
/// products k with k mod 4 in {0, 1}, half 1 those with k mod 4 in {2, 3}.
/// getProduct returns the index of product j of the part.
struct BlockPart {
  Value first, count;
  int64_t half = -1; ///< the half of a late block; -1: not divided

  Value getProduct(KernelBuilder &b, Value j) const;
};

/// Returns the parts of the block of `rule` that starts at product `first`: two
/// halves if the block is late (M3), else one part. Products from `end` on are
/// left out.
SmallVector<BlockPart> getBlockParts(KernelBuilder &b, FdpaAttr rule,
                                     Value first, Value end);

/// (M1) Adds chains of blocks of products. The factors have the element types
/// `x` and `y`.
class AccumulatorChain {
public:
  using Load = function_ref<Value(Value k)>; ///< loads an f32

  AccumulatorChain(KernelBuilder &b, FdpaAttr rule, Type x, Type y);

  /// Returns `c` plus the products [start, end), in f32. A NaN as the result
  /// may have any sign and payload.
  Value add(Value start, Value end, Value c, Load loadX, Load loadY);
  /// (M4) Returns the f32 sum of `init` and `n` >= 1 products, which are added
  /// in chunks; the last chunk may be shorter. The sum is not yet rounded to
  /// the result type.
  Value addChunks(int64_t n, int64_t chunk, Value init, Load loadX, Load loadY);

  /// The scales of the products: f8E4M3FN, or f32 with the value of an
  /// f8E8M0FNU. `load` returns the scale of product k.
  struct Scale {
    Type type;
    Load load;
  };
  /// (M2) Returns the sum of `n` scaled products, starting from +0. The
  /// products of a group share one scale per factor.
  Value addScaled(int64_t n, Load loadX, Load loadY, const Scale &scaleX,
                  const Scale &scaleY);

private:
  /// The number (-1)^negative * significand * 2^(exponent - fraction).
  struct Number {
    Value negative, significand, exponent;
    int64_t fraction;
  };
  /// A product, whose significand is an i64.
  struct Product {
    Number number;
    Value special; ///< an infinity or a NaN, otherwise zero
  };
  /// Returns product j of the block or, with groups (M2), the sum of group j.
  using GetProduct = function_ref<Product(Value j)>;

  Value addBlock(Value count, Value c, GetProduct getProduct);
  /// (M1) The sum T: magnitude * 2^place, negated if `negative`.
  struct Sum {
    Value negative, magnitude, place;
  };
  Sum addAligned(Value count, Value top, const Number &c,
                 GetProduct getProduct);
  /// Adds without cutting, for rules without F; the sum is kept as 32-bit
  /// digits.
  Sum addExactly(Value count, const Number &c, GetProduct getProduct);
  void addToDigits(Value negative, Value magnitude, Value place);
  Sum takeDigits();
  Value round(const Sum &sum);

  Number split(Value value, int64_t leastExponent);
  Product multiply(Value x, Value y);
  /// (M2) Returns the exact sum of the products [start, end). Its Exp is 0.
  Product addGroup(Value start, Value end, Load loadX, Load loadY);
  /// (M2) Returns `product` multiplied by the scale of product k.
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
  Value digits; ///< digits of an exact sum; null for rules with a fraction
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_ACCUMULATORCHAIN_H
