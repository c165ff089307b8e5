//===- ExactBytes.cpp - Exact contractions of signed bytes ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExactBytes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::repro;

static constexpr int64_t kDigitBits = 8;
/// In place of the exponent of a magnitude that is not finite. Exponents of
/// finite magnitudes are less than 1/4 of this number.
static constexpr int64_t kNotFinite = 4096;

AffineMap ExactFactor::getRowMap() const {
  MLIRContext *context = map.getContext();
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  SmallVector<AffineExpr> rows;
  for (unsigned dim : magnitudeDims)
    rows.push_back(getAffineDimExpr(
        *map.getResultPosition(getAffineDimExpr(dim, context)), context));
  return AffineMap::get(rank, 0, rows, context);
}

static Value getConstant(ImplicitLocOpBuilder &b, Type type, int64_t value) {
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
}

/// Creates an elementwise operation with a new tensor for each type of
/// `elements`.
static ValueRange createElementwise(
    ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape, TypeRange elements,
    ValueRange inputs, ArrayRef<AffineMap> inputMaps,
    function_ref<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange)> body) {
  SmallVector<Value> outputs;
  SmallVector<AffineMap> maps(inputMaps);
  for (Type element : elements) {
    outputs.push_back(tensor::EmptyOp::create(b, shape, element));
    maps.push_back(b.getMultiDimIdentityMap(shape.size()));
  }
  SmallVector<utils::IteratorType> parallel(shape.size(),
                                            utils::IteratorType::parallel);
  auto op = linalg::GenericOp::create(
      b, ValueRange(outputs).getTypes(), inputs, outputs, maps, parallel,
      [&](OpBuilder &nested, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder inner(loc, nested);
        linalg::YieldOp::create(inner, body(inner, arguments));
      });
  return op.getResults();
}

Value repro::fillTensor(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                        TypedAttr value) {
  return createElementwise(b, shape, value.getType(), {}, {},
                           [&](ImplicitLocOpBuilder &inner, ValueRange) {
                             return SmallVector<Value>{
                                 arith::ConstantOp::create(inner, value)};
                           })[0];
}

Value repro::getExactExponent(ImplicitLocOpBuilder &b, Value magnitude) {
  constexpr int64_t mantissaBits = 52, exponentBias = 1023;
  Type i64 = b.getI64Type();
  Value wide = arith::ExtFOp::create(b, b.getF64Type(), magnitude);
  Value bits = arith::BitcastOp::create(b, i64, wide);
  Value biased =
      arith::ShRUIOp::create(b, bits, getConstant(b, i64, mantissaBits));
  Value value =
      arith::SubIOp::create(b, biased, getConstant(b, i64, exponentBias - 1));
  Value zero = arith::ConstantOp::create(b, b.getF64FloatAttr(0));
  Value isZero =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, wide, zero);
  return arith::SelectOp::create(b, isZero, getConstant(b, i64, 0), value);
}

namespace {
/// Numbers that follow from the magnitudes of a factor, as tensors of the same
/// shape.
struct Scales {
  /// Powers of two, as f32. Their product, which may exceed the range of f32,
  /// is 2^(w - e). Both are 0 if a magnitude is not finite.
  Value first, second;
  /// e - w as an i64, or kNotFinite.
  Value exponents;
};
} // namespace

static Scales getScales(ImplicitLocOpBuilder &b, const ExactFactor &factor,
                        int64_t bits) {
  auto type = cast<RankedTensorType>(factor.magnitude.getType());
  Type f32 = b.getF32Type(), i64 = b.getI64Type();
  ValueRange results = createElementwise(
      b, type.getShape(), {f32, f32, i64}, factor.magnitude,
      b.getMultiDimIdentityMap(type.getRank()),
      [&](ImplicitLocOpBuilder &b, ValueRange arguments) {
        Type i32 = b.getI32Type();
        Value infinity = arith::ConstantOp::create(
            b, b.getFloatAttr(f32, APFloat::getInf(APFloat::IEEEsingle())));
        Value isFinite = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT,
                                               arguments[0], infinity);
        Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
        Value exponent = arith::SubIOp::create(
            b, getExactExponent(b, arguments[0]), getConstant(b, i64, bits));
        Value shift =
            arith::SubIOp::create(b, getConstant(b, i32, 0),
                                  arith::TruncIOp::create(b, i32, exponent));
        Value half = arith::ShRSIOp::create(b, shift, getConstant(b, i32, 1));
        auto getPower = [&](Value exponent) -> Value {
          Value biased =
              arith::AddIOp::create(b, exponent, getConstant(b, i32, 127));
          Value power = arith::BitcastOp::create(
              b, f32,
              arith::ShLIOp::create(b, biased, getConstant(b, i32, 23)));
          return arith::SelectOp::create(b, isFinite, power, zero);
        };
        return SmallVector<Value>{
            getPower(half), getPower(arith::SubIOp::create(b, shift, half)),
            arith::SelectOp::create(b, isFinite, exponent,
                                    getConstant(b, i64, kNotFinite))};
      });
  return {results[0], results[1], results[2]};
}

namespace {
/// The digits d0, d1, ... of a factor's integers q = d0 + 256 d1 + ..., each a
/// tensor of i8. Their values are balanced, thus in [-128, 127].
struct Digits {
  SmallVector<Value> tensors;
  AffineMap map; ///< from the dimensions of the fold
};
} // namespace

/// An element that occurs in several windows has digits for each of them, since
/// the windows may have different magnitudes.
static Digits getDigits(ImplicitLocOpBuilder &b, FoldOp fold,
                        const ExactFactor &factor, const Scales &scales,
                        int64_t digits) {
  // The dimensions of the fold that those of the new tensors are.
  SmallVector<unsigned> dims;
  unsigned numDims = factor.map.getNumDims();
  if (factor.map.isProjectedPermutation()) {
    for (AffineExpr expr : factor.map.getResults())
      dims.push_back(cast<AffineDimExpr>(expr).getPosition());
  } else {
    for (unsigned dim = 0; dim < numDims; ++dim)
      if (factor.map.isFunctionOfDim(dim))
        dims.push_back(dim);
  }
  SmallVector<int64_t> extents = fold.getExtents(), shape;
  SmallVector<AffineExpr> old, renumbered(numDims, b.getAffineConstantExpr(0));
  for (unsigned dim : dims) {
    renumbered[dim] = b.getAffineDimExpr(shape.size());
    old.push_back(b.getAffineDimExpr(dim));
    shape.push_back(extents[dim]);
  }
  auto renumber = [&](AffineMap map) {
    return map.replaceDimsAndSymbols(renumbered, {}, dims.size(), 0);
  };
  AffineMap rows = renumber(factor.magnitudeMap);
  SmallVector<Type> bytes(digits, b.getI8Type());
  ValueRange tensors = createElementwise(
      b, shape, bytes, {factor.tensor, scales.first, scales.second},
      {renumber(factor.map), rows, rows},
      [&](ImplicitLocOpBuilder &b, ValueRange arguments) {
        Type f32 = b.getF32Type(), i32 = b.getI32Type();
        Value scaled = arguments[0];
        if (scaled.getType() != f32)
          scaled = arith::ExtFOp::create(b, f32, scaled);
        // Exact, unless q is 0: the factors are powers of two.
        for (Value scale : arguments.slice(1, 2))
          scaled = arith::MulFOp::create(b, scaled, scale);
        scaled = math::RoundEvenOp::create(b, scaled);
        // NaN, where the magnitude is not finite, becomes 0.
        Value isNumber =
            arith::CmpFOp::create(b, arith::CmpFPredicate::ORD, scaled, scaled);
        Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
        scaled = arith::SelectOp::create(b, isNumber, scaled, zero);
        Value q = arith::FPToSIOp::create(b, i32, scaled);
        SmallVector<Value> results;
        for (int64_t i = 0; i < digits; ++i) {
          results.push_back(arith::TruncIOp::create(b, b.getI8Type(), q));
          // The rest is (q - digit) / 256.
          if (i + 1 < digits)
            q = arith::ShRSIOp::create(
                b, arith::AddIOp::create(b, q, getConstant(b, i32, 128)),
                getConstant(b, i32, kDigitBits));
        }
        return results;
      });
  return {SmallVector<Value>(tensors),
          AffineMap::get(numDims, 0, old, b.getContext())};
}

/// Returns T of (K4) for each result as an i64 tensor, which is unspecified if
/// a factor is not finite.
static Value sumProducts(ImplicitLocOpBuilder &b, FoldOp fold,
                         ArrayRef<const ExactFactor *> factors,
                         ArrayRef<Scales> scales, int64_t digits) {
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  SmallVector<AffineMap> indexing = fold.getIndexingMapsArray();
  for (auto [index, input] : llvm::enumerate(fold.getInputs()))
    if (index != factors[0]->input && index != factors[1]->input) {
      inputs.push_back(input); // only defines extents
      maps.push_back(indexing[index]);
    }
  unsigned first = inputs.size();
  for (auto [factor, scale] : llvm::zip_equal(factors, scales)) {
    Digits parts = getDigits(b, fold, *factor, scale, digits);
    inputs.append(parts.tensors);
    maps.append(parts.tensors.size(), parts.map);
  }
  Type i64 = b.getI64Type();
  auto resultType = cast<RankedTensorType>(fold->getResult(0).getType());
  Value init = fillTensor(b, resultType.getShape(), b.getI64IntegerAttr(0));
  maps.push_back(indexing.back());
  auto sum =
      FoldOp::create(b, TypeRange{init.getType()}, inputs, ValueRange{init},
                     b.getAffineMapArrayAttr(maps), fold.getIteratorTypes(),
                     AnyOrderAttr::get(b.getContext()));
  Block *body = &sum.getRegion().emplaceBlock();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(body);
  for (Value operand : sum->getOperands())
    body->addArgument(getElementTypeOrSelf(operand.getType()), b.getLoc());
  SmallVector<Value> values;
  for (BlockArgument digit : body->getArguments().slice(first, 2 * digits))
    values.push_back(arith::ExtSIOp::create(b, i64, digit));
  Value total;
  for (int64_t i = 0; i < digits; ++i)
    for (int64_t j = 0; j < digits; ++j) {
      Value product = arith::MulIOp::create(b, values[i], values[digits + j]);
      if (i + j > 0)
        product = arith::ShLIOp::create(
            b, product, getConstant(b, i64, kDigitBits * (i + j)));
      total = total ? arith::AddIOp::create(b, total, product) : product;
    }
  Value step = arith::AddIOp::create(b, body->getArguments().back(), total);
  repro::YieldOp::create(b, step);
  return sum.getResult(0);
}

Value repro::contractBytes(ImplicitLocOpBuilder &b, FoldOp fold,
                           const ExactFactor &x, const ExactFactor &y,
                           int64_t digits) {
  const ExactFactor *factors[] = {&x, &y};
  SmallVector<Scales> scales;
  for (const ExactFactor *factor : factors)
    scales.push_back(getScales(b, *factor, kDigitBits * digits - 2));
  Value sums = sumProducts(b, fold, factors, scales, digits);

  auto type = cast<RankedTensorType>(fold->getResult(0).getType());
  AffineMap output = fold.getIndexingMapsArray().back();
  AffineMap identity = b.getMultiDimIdentityMap(type.getRank());
  SmallVector<AffineMap> maps;
  for (const ExactFactor *factor : factors) {
    SmallVector<AffineExpr> rows;
    for (unsigned dim : factor->magnitudeDims)
      rows.push_back(b.getAffineDimExpr(
          *output.getResultPosition(b.getAffineDimExpr(dim))));
    maps.push_back(AffineMap::get(type.getRank(), 0, rows, b.getContext()));
  }
  maps.append({identity, identity});
  return createElementwise(
      b, type.getShape(), type.getElementType(),
      {scales[0].exponents, scales[1].exponents, sums, fold.getOutputs()[0]},
      maps, [&](ImplicitLocOpBuilder &b, ValueRange arguments) {
        Type f32 = b.getF32Type(), f64 = b.getF64Type(), i64 = b.getI64Type();
        Value exponent = arith::AddIOp::create(b, arguments[0], arguments[1]);
        // T times 2^exponent is a normal number or 0, so the exponent can be
        // added to the bits.
        Value total = arith::SIToFPOp::create(b, f64, arguments[2]);
        Value bits = arith::AddIOp::create(
            b, arith::BitcastOp::create(b, i64, total),
            arith::ShLIOp::create(b, exponent, getConstant(b, i64, 52)));
        Value isZero = arith::CmpIOp::create(
            b, arith::CmpIPredicate::eq, arguments[2], getConstant(b, i64, 0));
        bits = arith::SelectOp::create(b, isZero, getConstant(b, i64, 0), bits);
        Value rounded = arith::TruncFOp::create(
            b, f32, arith::BitcastOp::create(b, f64, bits));
        Value isFinite =
            arith::CmpIOp::create(b, arith::CmpIPredicate::slt, exponent,
                                  getConstant(b, i64, kNotFinite / 2));
        Value nan = arith::ConstantOp::create(
            b, b.getFloatAttr(f32, APFloat::getQNaN(APFloat::IEEEsingle())));
        rounded = arith::SelectOp::create(b, isFinite, rounded, nan);
        Value init = arguments[3];
        if (init.getType() != f32)
          init = arith::ExtFOp::create(b, f32, init);
        Value result = arith::AddFOp::create(b, init, rounded);
        if (type.getElementType() != f32)
          result = arith::TruncFOp::create(b, type.getElementType(), result);
        return SmallVector<Value>{result};
      })[0];
}
