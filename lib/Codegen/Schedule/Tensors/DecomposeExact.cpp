//===- DecomposeExact.cpp - Exact contractions as f64 arithmetic ----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-decompose-exact (Passes.td), run by lib/Pipelines/Schedule.cpp:
// rewrites (K4) contractions. The integers have w = 8 * digits - 2 bits and are
// multiplied and added in f64, where every sum is exact, so that the order does
// not matter. f64 represents all sums of up to 2^18 products of 14-bit
// integers. For 22 bits, one factor is split into halves, and the two sums are
// added in an i64. For machines that multiply bytes, ExactBytes.cpp adds the
// products of bytes in an i64 instead.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/Passes.h"
#include "ExactBytes.h"
#include "Target/ByteMatrices.h"
#include "dialects/Repro/IR/ContractionBody.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPRODECOMPOSEEXACT
#include "lib/Codegen/Schedule/Tensors/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// The number of bits of the low half of a split integer.
static constexpr int64_t kLowBits = 11;

static constexpr int64_t kMantissaBits = 52;
static constexpr int64_t kExponentBias = 1023;

namespace {
struct DecomposeExact
    : public repro::impl::ReproDecomposeExactBase<DecomposeExact> {
  using ReproDecomposeExactBase::ReproDecomposeExactBase;

  void runOnOperation() override;
};

/// Builds scalar arithmetic in the body of an operation.
struct Body {
  ImplicitLocOpBuilder b;

  Body(OpBuilder &nested, Location loc) : b(loc, nested) {}

  Value f64(double value) {
    return arith::ConstantOp::create(b, b.getF64FloatAttr(value));
  }
  Value i64(int64_t value) {
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  }
  Value extend(Value value, Type type) {
    return value.getType() == type ? value
                                   : arith::ExtFOp::create(b, type, value);
  }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }

  /// Returns 2^exponent. The result must be a normal f64.
  Value powerOfTwo(Value exponent) {
    Value biased = arith::AddIOp::create(b, exponent, i64(kExponentBias));
    Value bits = arith::ShLIOp::create(b, biased, i64(kMantissaBits));
    return arith::BitcastOp::create(b, b.getF64Type(), bits);
  }

  /// Returns q_t of (K4) as an f64. The result is unspecified if the magnitude
  /// is not finite.
  Value toInteger(Value element, Value magnitude, int64_t bits) {
    Value scale = powerOfTwo(
        arith::SubIOp::create(b, i64(bits), getExactExponent(b, magnitude)));
    return math::RoundEvenOp::create(
        b, mul(extend(element, b.getF64Type()), scale));
  }

  /// Returns the high or the low half of `integer`, which is high * 2^kLowBits
  /// + low.
  Value getPart(Value integer, bool high) {
    Value shifted = math::RoundEvenOp::create(
        b, mul(integer, f64(1.0 / double(1 << kLowBits))));
    if (high)
      return shifted;
    return arith::SubFOp::create(b, integer,
                                 mul(shifted, f64(double(1 << kLowBits))));
  }
};

/// Rewrites one contraction (K4) as operations on f64, or on bytes.
class Decomposition {
public:
  Decomposition(FoldOp fold, bool sumsBytes)
      : fold(fold), sumsBytes(sumsBytes), b(fold.getLoc(), fold),
        digits(cast<ExactAttr>(fold.getOrderAttr()).getDigits()),
        bits(8 * digits - 2), extents(fold.getExtents()),
        iterators(fold.getIteratorTypesArray()) {}

  Value build();

private:
  bool isParallel(unsigned dim) {
    return iterators[dim] == utils::IteratorType::parallel;
  }
  ExactFactor getFactor(unsigned input);
  /// Returns the integers of a factor as an f64 tensor; if `high` is given,
  /// their high halves (true) or low halves (false). An element must have the
  /// same integer in all windows.
  Value getIntegers(const ExactFactor &factor, std::optional<bool> high);
  /// Returns the contraction of the integers of `x`, or of the halves that
  /// `high` selects, with those of `y`.
  Value contract(const ExactFactor &x, const ExactFactor &y,
                 std::optional<bool> high);
  Value finish(const ExactFactor &x, const ExactFactor &y, ValueRange totals);

  FoldOp fold;
  bool sumsBytes;
  ImplicitLocOpBuilder b;
  int64_t digits, bits;
  SmallVector<int64_t> extents;
  SmallVector<utils::IteratorType> iterators;
};
} // namespace

ExactFactor Decomposition::getFactor(unsigned input) {
  ExactFactor factor;
  factor.input = input;
  factor.tensor = fold.getInputs()[input];
  factor.map = fold.getIndexingMapsArray()[input];
  // The fold below, which computes the magnitude, has only the dimensions on
  // which the factor depends.
  SmallVector<unsigned> dims;
  SmallVector<AffineExpr> renumbered(extents.size(),
                                     b.getAffineConstantExpr(0));
  SmallVector<utils::IteratorType> kinds;
  for (unsigned dim = 0; dim < extents.size(); ++dim) {
    if (!factor.map.isFunctionOfDim(dim))
      continue;
    renumbered[dim] = b.getAffineDimExpr(dims.size());
    dims.push_back(dim);
    kinds.push_back(iterators[dim]);
    if (isParallel(dim))
      factor.magnitudeDims.push_back(dim);
  }
  auto renumber = [&](AffineMap map) {
    return map.replaceDimsAndSymbols(renumbered, {}, dims.size(), 0);
  };
  auto mapOf = [&](ArrayRef<unsigned> results) {
    SmallVector<AffineExpr> exprs;
    for (unsigned dim : results)
      exprs.push_back(b.getAffineDimExpr(dim));
    return AffineMap::get(extents.size(), 0, exprs, b.getContext());
  };
  factor.magnitudeMap = mapOf(factor.magnitudeDims);
  SmallVector<int64_t> shape;
  for (unsigned dim : factor.magnitudeDims)
    shape.push_back(extents[dim]);
  Value init = fillTensor(b, shape, b.getF32FloatAttr(0));
  // If no dimension of the factor has the extent of a reduction loop, an
  // operand that the body does not read defines this extent.
  SmallVector<Value> inputs = {factor.tensor};
  SmallVector<AffineMap> maps = {renumber(factor.map)};
  SmallVector<unsigned> hidden;
  for (unsigned dim : dims)
    if (!isParallel(dim) &&
        !llvm::is_contained(factor.map.getResults(), b.getAffineDimExpr(dim)))
      hidden.push_back(dim);
  if (!hidden.empty()) {
    SmallVector<int64_t> window;
    for (unsigned dim : hidden)
      window.push_back(extents[dim]);
    inputs.push_back(tensor::EmptyOp::create(b, window, b.getF32Type()));
    maps.push_back(renumber(mapOf(hidden)));
  }
  maps.push_back(renumber(factor.magnitudeMap));
  auto iteratorTypes = b.getArrayAttr(
      llvm::map_to_vector(kinds, [&](utils::IteratorType type) -> Attribute {
        return linalg::IteratorTypeAttr::get(b.getContext(), type);
      }));
  auto largest =
      FoldOp::create(b, TypeRange{init.getType()}, inputs, ValueRange{init},
                     b.getAffineMapArrayAttr(maps), iteratorTypes,
                     AnyOrderAttr::get(b.getContext()));
  Block *body = &largest.getRegion().emplaceBlock();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(body);
  for (Value operand : largest->getOperands())
    body->addArgument(getElementTypeOrSelf(operand.getType()), b.getLoc());
  Body scalars(b, b.getLoc());
  Value size = math::AbsFOp::create(
      b, scalars.extend(body->getArgument(0), b.getF32Type()));
  Value step = arith::MaximumFOp::create(b, body->getArguments().back(), size);
  YieldOp::create(b, step);
  factor.magnitude = largest.getResult(0);
  return factor;
}

Value Decomposition::getIntegers(const ExactFactor &factor,
                                 std::optional<bool> high) {
  auto type = cast<RankedTensorType>(factor.tensor.getType());
  int64_t rank = type.getRank();
  AffineMap identity = b.getMultiDimIdentityMap(rank);
  SmallVector<AffineMap> maps = {identity, factor.getRowMap(), identity};
  Value empty = tensor::EmptyOp::create(b, type.getShape(), b.getF64Type());
  SmallVector<utils::IteratorType> parallel(rank,
                                            utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             b, TypeRange{empty.getType()},
             ValueRange{factor.tensor, factor.magnitude}, ValueRange{empty},
             maps, parallel,
             [&](OpBuilder &nested, Location loc, ValueRange arguments) {
               Body scalars(nested, loc);
               Value q = scalars.toInteger(arguments[0], arguments[1], bits);
               linalg::YieldOp::create(
                   scalars.b, ValueRange{high ? scalars.getPart(q, *high) : q});
             })
      .getResult(0);
}

Value Decomposition::contract(const ExactFactor &x, const ExactFactor &y,
                              std::optional<bool> high) {
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  SmallVector<AffineMap> indexing = fold.getIndexingMapsArray();
  for (auto [index, input, map] :
       llvm::enumerate(fold.getInputs(), ArrayRef(indexing).drop_back()))
    if (index != x.input && index != y.input) {
      inputs.push_back(input); // only defines extents
      maps.push_back(map);
    }
  // If an element occurs in several windows, its integers in these windows may
  // differ. The body then computes the integers.
  struct Use {
    unsigned position;
    bool isInteger;
    std::optional<bool> high;
  };
  auto use = [&](const ExactFactor &factor, std::optional<bool> part) {
    Use use{unsigned(inputs.size()), factor.map.isProjectedPermutation(), part};
    if (use.isInteger) {
      inputs.push_back(getIntegers(factor, part));
      maps.push_back(factor.map);
    } else {
      inputs.append({factor.tensor, factor.magnitude});
      maps.append({factor.map, factor.magnitudeMap});
    }
    return use;
  };
  Use ofX = use(x, high), ofY = use(y, std::nullopt);
  auto resultType = cast<RankedTensorType>(fold->getResult(0).getType());
  Value init = fillTensor(b, resultType.getShape(), b.getF64FloatAttr(0));
  maps.push_back(fold.getIndexingMapsArray().back());
  auto order = OrderAttr::get(b.getContext(), /*chunk=*/512, /*lanes=*/1,
                              /*run=*/0, Totals::sequential);
  auto sum = FoldOp::create(b, TypeRange{init.getType()}, inputs,
                            ValueRange{init}, b.getAffineMapArrayAttr(maps),
                            fold.getIteratorTypes(), order);
  Block *body = &sum.getRegion().emplaceBlock();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(body);
  for (Value operand : sum->getOperands())
    body->addArgument(getElementTypeOrSelf(operand.getType()), b.getLoc());
  Body scalars(b, b.getLoc());
  auto get = [&](const Use &use) -> Value {
    Value element = body->getArgument(use.position);
    if (use.isInteger)
      return element;
    Value q =
        scalars.toInteger(element, body->getArgument(use.position + 1), bits);
    return use.high ? scalars.getPart(q, *use.high) : q;
  };
  Value left = get(ofX), right = get(ofY);
  YieldOp::create(scalars.b,
                  ValueRange{math::FmaOp::create(scalars.b, left, right,
                                                 body->getArguments().back())});
  return sum.getResult(0);
}

Value Decomposition::finish(const ExactFactor &x, const ExactFactor &y,
                            ValueRange totals) {
  auto type = cast<RankedTensorType>(fold->getResult(0).getType());
  AffineMap output = fold.getIndexingMapsArray().back();
  AffineMap identity = b.getMultiDimIdentityMap(type.getRank());
  auto rowsOf = [&](const ExactFactor &factor) {
    SmallVector<AffineExpr> rows;
    for (unsigned dim : factor.magnitudeDims)
      rows.push_back(b.getAffineDimExpr(
          *output.getResultPosition(b.getAffineDimExpr(dim))));
    return AffineMap::get(type.getRank(), 0, rows, b.getContext());
  };
  SmallVector<Value> inputs = {x.magnitude, y.magnitude, fold.getOutputs()[0]};
  SmallVector<AffineMap> maps = {rowsOf(x), rowsOf(y), identity};
  for (Value total : totals) {
    inputs.push_back(total);
    maps.push_back(identity);
  }
  maps.push_back(identity);
  Value empty =
      tensor::EmptyOp::create(b, type.getShape(), type.getElementType());
  SmallVector<utils::IteratorType> parallel(type.getRank(),
                                            utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             b, TypeRange{type}, inputs, ValueRange{empty}, maps, parallel,
             [&](OpBuilder &nested, Location loc, ValueRange arguments) {
               Body scalars(nested, loc);
               ImplicitLocOpBuilder &b = scalars.b;
               Type f32 = b.getF32Type();
               Value total = arguments[3];
               if (totals.size() == 2) {
                 auto toI64 = [&](Value value) {
                   return arith::FPToSIOp::create(b, b.getI64Type(), value);
                 };
                 Value high = arith::ShLIOp::create(b, toI64(total),
                                                    scalars.i64(kLowBits));
                 total = arith::SIToFPOp::create(
                     b, b.getF64Type(),
                     arith::AddIOp::create(b, high, toI64(arguments[4])));
               }
               Value infinity = arith::ConstantOp::create(
                   b,
                   b.getFloatAttr(f32, APFloat::getInf(APFloat::IEEEsingle())));
               Value finite;
               for (Value magnitude : arguments.take_front(2)) {
                 Value exponent = arith::SubIOp::create(
                     b, getExactExponent(b, magnitude), scalars.i64(bits));
                 total = scalars.mul(total, scalars.powerOfTwo(exponent));
                 Value isFinite = arith::CmpFOp::create(
                     b, arith::CmpFPredicate::OLT, magnitude, infinity);
                 finite = finite ? arith::AndIOp::create(b, finite, isFinite)
                                 : isFinite;
               }
               Value rounded = arith::TruncFOp::create(b, f32, total);
               Value nan = arith::ConstantOp::create(
                   b, b.getFloatAttr(f32,
                                     APFloat::getQNaN(APFloat::IEEEsingle())));
               rounded = arith::SelectOp::create(b, finite, rounded, nan);
               Value result = arith::AddFOp::create(
                   b, scalars.extend(arguments[2], f32), rounded);
               if (type.getElementType() != f32)
                 result =
                     arith::TruncFOp::create(b, type.getElementType(), result);
               linalg::YieldOp::create(b, ValueRange{result});
             })
      .getResult(0);
}

Value Decomposition::build() {
  if (llvm::is_contained(extents, 0))
    return fold.getOutputs()[0];
  ContractionBody body = *getContraction(fold);
  ExactFactor x = getFactor(body.x.inputs[0]), y = getFactor(body.y.inputs[0]);
  if (sumsBytes)
    return contractBytes(b, fold, x, y, digits);
  SmallVector<Value> totals;
  if (digits == 2)
    totals = {contract(x, y, std::nullopt)};
  else
    totals = {contract(x, y, true), contract(x, y, false)};
  return finish(x, y, totals);
}

/// Whether the fold is a (batched) matrix product that matrix instructions can
/// compute: both factors have enough rows, and every sum of products of digits
/// fits in i32.
static bool isMatrixProduct(FoldOp fold) {
  constexpr int64_t fewestRows = repro_target::fewestByteMatrixRows,
                    mostElements = int64_t(1) << 15;
  ContractionBody body = *getContraction(fold);
  SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
  AffineMap x = maps[body.x.inputs[0]], y = maps[body.y.inputs[0]];
  if (!x.isProjectedPermutation() || !y.isProjectedPermutation())
    return false;
  int64_t rows = 1, columns = 1, elements = 1, results = 1;
  for (auto [dim, extent, kind] :
       llvm::enumerate(fold.getExtents(), fold.getIteratorTypesArray())) {
    bool isParallel = kind == utils::IteratorType::parallel;
    (isParallel ? results : elements) *= extent;
    if (isParallel && body.isOfOneFactor(dim))
      (body.x.dims[dim] ? rows : columns) *= extent;
  }
  return rows >= fewestRows && columns >= fewestRows && results > 0 &&
         elements > 0 && elements <= mostElements;
}

void DecomposeExact::runOnOperation() {
  SmallVector<FoldOp> work;
  getOperation().walk([&](FoldOp fold) {
    if (isa_and_present<ExactAttr>(fold.getOrderAttr()) &&
        !(keepMatrices && isMatrixProduct(fold)))
      work.push_back(fold);
  });
  for (FoldOp fold : work) {
    if (!fold.hasPureTensorSemantics()) {
      fold.emitOpError("expected tensors");
      return signalPassFailure();
    }
    fold->getResult(0).replaceAllUsesWith(
        Decomposition(fold, sumBytes).build());
    fold.erase();
  }
}
