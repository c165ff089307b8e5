//===- ReproAdjoints.cpp - Adjoints of repro's operations -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "Dialect/Repro/Differentiation/Passes.h"
#include "dialects/Repro/IR/ImportedOps.h"

using namespace mlir;
using namespace mlir::repro;

static RankedTensorType getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static Value makeEmpty(ImplicitLocOpBuilder &b, Value like) {
  RankedTensorType type = getTensorType(like);
  return tensor::EmptyOp::create(b, type.getShape(), type.getElementType());
}

//===----------------------------------------------------------------------===//
// repro.scan
//===----------------------------------------------------------------------===//

/// Returns the suffix sums along `dim`: each element plus all later elements.
static Value sumBehind(ImplicitLocOpBuilder &b, Value tensor, int64_t dim) {
  return flip(b, scan(b, flip(b, tensor, dim), Combine::add, dim), dim);
}

static Value multiply(ImplicitLocOpBuilder &b, Value x, Value y) {
  RankedTensorType type = getTensorType(x);
  return mapElements(
      b, type.getShape(), type.getElementType(), {x, y}, {},
      [](ImplicitLocOpBuilder &b, ValueRange values) {
        return (Scalar(b, values[0]) * Scalar(b, values[1])).get();
      });
}

static Scalar isZero(Scalar x) {
  return compare(arith::CmpFPredicate::OEQ, x, x.constant(0));
}

/// Returns a tensor that contains 1 where an element is zero, else 0.
static Value markZeros(ImplicitLocOpBuilder &b, Value tensor) {
  RankedTensorType type = getTensorType(tensor);
  return mapElements(
      b, type.getShape(), type.getElementType(), tensor, {},
      [](ImplicitLocOpBuilder &b, ValueRange values) {
        Scalar x(b, values[0]);
        return select(isZero(x), x.constant(1), x.constant(0)).get();
      });
}

/// (J3) Differentiates prefix products y of x. Before the first zero of x, the
/// gradient is the suffix sum of g * y, divided by x. At this zero, it is the
/// suffix sum of g * z, where z are the prefix products without the zero. After
/// the zero, it is 0.
static Value deriveProducts(ImplicitLocOpBuilder &b, Value x, Value y, Value g,
                            int64_t dim) {
  RankedTensorType type = getTensorType(x);
  Value zeros = scan(b, markZeros(b, x), Combine::add, dim);
  auto isFirstZero = [](Scalar x, Scalar zeros) {
    Scalar isOne = compare(arith::CmpFPredicate::OEQ, zeros, x.constant(1));
    ImplicitLocOpBuilder &b = x.getBuilder();
    return Scalar(b, arith::AndIOp::create(b, isZero(x).get(), isOne.get()));
  };
  Value without = mapElements(
      b, type.getShape(), type.getElementType(), {x, zeros}, {},
      [&](ImplicitLocOpBuilder &b, ValueRange values) {
        Scalar x(b, values[0]);
        return select(isFirstZero(x, Scalar(b, values[1])), x.constant(1), x)
            .get();
      });
  without = scan(b, without, Combine::mul, dim);
  Value plain = sumBehind(b, multiply(b, g, y), dim);
  Value special = sumBehind(b, multiply(b, g, without), dim);
  return mapElements(
      b, type.getShape(), type.getElementType(), {x, zeros, plain, special}, {},
      [&](ImplicitLocOpBuilder &b, ValueRange values) {
        Scalar x(b, values[0]), zeros(b, values[1]);
        Scalar before =
            select(isZero(zeros), Scalar(b, values[2]) / x, x.constant(0));
        return select(isFirstZero(x, zeros), Scalar(b, values[3]), before)
            .get();
      });
}

static LogicalResult addAdjointsOf(ScanOp op, ImplicitLocOpBuilder &b,
                                   Adjoints &adjoints) {
  Value x = op.getInputs()[0], y = op.getResult(0), g = adjoints.get(y);
  int64_t dim = op.getDimension();
  if (op.getCombine() == Combine::add)
    adjoints.add(x, sumBehind(b, g, dim));
  else if (op.getCombine() == Combine::mul) {
    Type element = getTensorType(x).getElementType();
    auto widen = [&](Value tensor) {
      return convertElements(b, tensor, getDerivativeType(element));
    };
    Value products = deriveProducts(b, widen(x), widen(y), widen(g), dim);
    adjoints.add(x, convertElements(b, products, element));
  } else
    return op.emitOpError("(J1) has a derivative only for sums and products");
  return success();
}

//===----------------------------------------------------------------------===//
// repro.sort and repro.arg_reduce
//===----------------------------------------------------------------------===//

/// Sorts all `inputs` along `dim` by the first input.
static ValueRange sort(ImplicitLocOpBuilder &b, ValueRange inputs,
                       SortDirection direction, int64_t dim) {
  SmallVector<Value> empty = llvm::map_to_vector(
      inputs, [&](Value input) { return makeEmpty(b, input); });
  return SortOp::create(b, TypeRange(inputs), inputs, empty, direction, dim)
      .getResults();
}

/// Sorting positions along with the key gives the permutation. Sorting
/// gradients by the permuted positions restores the original order.
static LogicalResult addAdjointsOf(SortOp op, ImplicitLocOpBuilder &b,
                                   Adjoints &adjoints) {
  int64_t dim = op.getDimension();
  Value key = op.getInputs()[0];
  Value positions = makePositions(b, getTensorType(key).getShape(), dim);
  positions = sort(b, {key, positions}, op.getDirection(), dim)[1];
  for (auto [input, result] : llvm::zip_equal(op.getInputs(), op.getResults()))
    if (Value g = adjoints.get(result); g && adjoints.isActive(input))
      adjoints.add(input,
                   sort(b, {positions, g}, SortDirection::ascending, dim)[1]);
  return success();
}

/// The element that the arg-max or arg-min selected gets the gradient.
static LogicalResult addAdjointsOf(ArgReduceOp op, ImplicitLocOpBuilder &b,
                                   Adjoints &adjoints) {
  RankedTensorType type = getTensorType(op.getInputs()[0]);
  int64_t dim = op.getDimension();
  AffineMap map = b.getMultiDimIdentityMap(type.getRank()).dropResult(dim);
  adjoints.add(
      op.getInputs()[0],
      mapElements(
          b, type.getShape(), type.getElementType(),
          {adjoints.get(op.getResult(0)), op.getResult(1)}, {map, map},
          [&](ImplicitLocOpBuilder &b, ValueRange values) {
            Value here = linalg::IndexOp::create(b, dim);
            here = arith::IndexCastOp::create(b, values[1].getType(), here);
            Scalar isHere(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                                   here, values[1]));
            Scalar g(b, values[0]);
            return select(isHere, g, g.constant(0)).get();
          }));
  return success();
}

//===----------------------------------------------------------------------===//
// repro.scatter
//===----------------------------------------------------------------------===//

/// Returns the slices of `from` at the positions that the rows of `indices`
/// give. `type`, the type of the result, is that of a scatter's updates.
static Value gather(ImplicitLocOpBuilder &b, Value from, Value indices,
                    RankedTensorType type) {
  RankedTensorType source = getTensorType(from);
  int64_t depth = getTensorType(indices).getDimSize(1);
  unsigned rank = type.getRank();
  // One column of indices per indexed dimension.
  SmallVector<Value> columns;
  for (int64_t i = 0; i < depth; ++i)
    columns.push_back(reshape(b, slice(b, indices, 1, i, 1),
                              {getTensorType(indices).getDimSize(0)}));
  AffineMap first = AffineMap::get(rank, 0, b.getAffineDimExpr(0));
  SmallVector<AffineMap> maps(depth, first);
  return mapElements(b, type.getShape(), source.getElementType(), columns, maps,
                     [&](ImplicitLocOpBuilder &b, ValueRange values) -> Value {
                       SmallVector<Value> position;
                       for (Value index : values)
                         position.push_back(arith::IndexCastOp::create(
                             b, b.getIndexType(), index));
                       for (unsigned dim = 1; dim < rank; ++dim)
                         position.push_back(linalg::IndexOp::create(b, dim));
                       return tensor::ExtractOp::create(b, from, position);
                     });
}

static Value scatter(ImplicitLocOpBuilder &b, Value updates, Value indices,
                     Value original, Combine combine) {
  return ScatterOp::create(b, TypeRange(original), ValueRange{updates, indices},
                           ValueRange{original}, combine)
      .getResult(0);
}

/// (J3) The original element and the updates that equal the result get equal
/// shares of the gradient.
static LogicalResult addOfExtremes(ScatterOp op, ImplicitLocOpBuilder &b,
                                   Adjoints &adjoints) {
  Value result = op.getResult(0), g = adjoints.get(result);
  Value updates = op.getUpdates(), original = op.getOutputs()[0];
  auto mark = [&](Value tensor, Value result) {
    RankedTensorType type = getTensorType(tensor);
    return mapElements(
        b, type.getShape(), type.getElementType(), {tensor, result}, {},
        [](ImplicitLocOpBuilder &b, ValueRange values) {
          Scalar x(b, values[0]), y(b, values[1]);
          Scalar isEqual = compare(arith::CmpFPredicate::OEQ, x, y);
          return select(isEqual, x.constant(1), x.constant(0)).get();
        });
  };
  RankedTensorType type = getTensorType(updates);
  Value chosen = mark(original, result);
  Value marked = mark(updates, gather(b, result, op.getIndices(), type));
  Value count = scatter(b, marked, op.getIndices(), chosen, Combine::add);
  RankedTensorType whole = getTensorType(original);
  Value share =
      mapElements(b, whole.getShape(), whole.getElementType(), {g, count}, {},
                  [](ImplicitLocOpBuilder &b, ValueRange values) {
                    return (Scalar(b, values[0]) / Scalar(b, values[1])).get();
                  });
  adjoints.add(original, multiply(b, share, chosen));
  adjoints.add(updates,
               multiply(b, gather(b, share, op.getIndices(), type), marked));
  return success();
}

/// (J3) Each factor gets the gradient times the product of the other factors.
/// For a factor that is the only zero, this product is that of the nonzero
/// factors; for all other factors, it is then 0.
static LogicalResult addOfProducts(ScatterOp op, ImplicitLocOpBuilder &b,
                                   Adjoints &adjoints) {
  Value g = adjoints.get(op.getResult(0)), indices = op.getIndices();
  Value updates = op.getUpdates(), original = op.getOutputs()[0];
  auto replaceZeros = [&](Value tensor) {
    RankedTensorType type = getTensorType(tensor);
    return mapElements(b, type.getShape(), type.getElementType(), tensor, {},
                       [](ImplicitLocOpBuilder &b, ValueRange values) {
                         Scalar x(b, values[0]);
                         return select(isZero(x), x.constant(1), x).get();
                       });
  };
  Value product = scatter(b, replaceZeros(updates), indices,
                          replaceZeros(original), Combine::mul);
  Value zeros = scatter(b, markZeros(b, updates), indices,
                        markZeros(b, original), Combine::add);
  auto derive = [&](Value x, Value product, Value zeros, Value g) {
    RankedTensorType type = getTensorType(x);
    return mapElements(
        b, type.getShape(), type.getElementType(), {x, product, zeros, g}, {},
        [](ImplicitLocOpBuilder &b, ValueRange values) {
          Scalar x(b, values[0]), product(b, values[1]), zeros(b, values[2]);
          Scalar zero = x.constant(0);
          Scalar isOnly =
              compare(arith::CmpFPredicate::OEQ, zeros, x.constant(1));
          Scalar ofZero = select(isOnly, product, zero);
          Scalar others = select(isZero(zeros), product / x, zero);
          return (Scalar(b, values[3]) * select(isZero(x), ofZero, others))
              .get();
        });
  };
  if (adjoints.isActive(original))
    adjoints.add(original, derive(original, product, zeros, g));
  RankedTensorType type = getTensorType(updates);
  if (adjoints.isActive(updates))
    adjoints.add(updates, derive(updates, gather(b, product, indices, type),
                                 gather(b, zeros, indices, type),
                                 gather(b, g, indices, type)));
  return success();
}

static LogicalResult addAdjointsOf(ScatterOp op, ImplicitLocOpBuilder &b,
                                   Adjoints &adjoints) {
  Value g = adjoints.get(op.getResult(0)), indices = op.getIndices();
  Value updates = op.getUpdates(), original = op.getOutputs()[0];
  RankedTensorType type = getTensorType(updates);
  if (op.getCombine() == Combine::add) {
    if (adjoints.isActive(updates))
      adjoints.add(updates, gather(b, g, indices, type));
    adjoints.add(original, g);
    return success();
  }
  if (op.getCombine() == Combine::mul)
    return addOfProducts(op, b, adjoints);
  if (op.getCombine() != Combine::replace)
    return addOfExtremes(op, b, adjoints);
  if (adjoints.isActive(original))
    adjoints.add(original,
                 scatter(b, makeZero(b, type), indices, g, Combine::replace));
  if (!adjoints.isActive(updates))
    return success();
  // The last update of an element gets the gradient.
  Value numbers = makePositions(b, type.getShape(), 0);
  RankedTensorType numberType =
      RankedTensorType::get(getTensorType(original).getShape(), b.getI64Type());
  Value winners =
      scatter(b, numbers, indices, makeZero(b, numberType), Combine::replace);
  Value winner = gather(b, winners, indices, type);
  Value here = gather(b, g, indices, type);
  adjoints.add(
      updates,
      mapElements(
          b, type.getShape(), type.getElementType(), {here, winner, numbers},
          {}, [&](ImplicitLocOpBuilder &b, ValueRange values) {
            Scalar isLast(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                                   values[1], values[2]));
            Scalar gradient(b, values[0]);
            return select(isLast, gradient, gradient.constant(0)).get();
          }));
  return success();
}

//===----------------------------------------------------------------------===//
// repro.attention
//===----------------------------------------------------------------------===//

static LogicalResult addAdjointsOf(AttentionOp op, ImplicitLocOpBuilder &b,
                                   Adjoints &adjoints) {
  if (adjoints.get(op.getMaxima()) || adjoints.get(op.getLogarithms()))
    return op.emitOpError("(J1) has no derivative of maxima and logarithms");
  SmallVector<Type> types{op.getQuery().getType(), op.getKey().getType(),
                          op.getValue().getType()};
  Value mask = op.getMask();
  bool isMaskFloat =
      mask && isa<FloatType>(getTensorType(mask).getElementType());
  types.push_back(isMaskFloat ? mask.getType() : Type());
  auto gradient = AttentionGradientOp::create(
      b, types[0], types[1], types[2], types[3], op.getQuery(), op.getKey(),
      op.getValue(), mask, op.getSeed(), op.getStep(),
      adjoints.get(op.getOutput()), op.getOutput(), op.getMaxima(),
      op.getLogarithms(), op.getCausalAttr(), op.getBlockAttr(),
      op.getScaleAttr(), op.getRateAttr(), op.getSiteAttr());
  adjoints.add(op.getQuery(), gradient.getQueryGradient());
  adjoints.add(op.getKey(), gradient.getKeyGradient());
  adjoints.add(op.getValue(), gradient.getValueGradient());
  if (isMaskFloat)
    adjoints.add(mask, gradient.getMaskGradient());
  return success();
}

namespace {
template <typename Op>
struct ReproModel : AdjointOpInterface::ExternalModel<ReproModel<Op>, Op> {
  LogicalResult addAdjoints(Operation *op, Adjoints &adjoints) const {
    ImplicitLocOpBuilder b = adjoints.builderAt(op->getLoc());
    return addAdjointsOf(cast<Op>(op), b, adjoints);
  }
};
} // namespace

template <typename... Ops>
static void attachReproModels(MLIRContext *context) {
  (Ops::template attachInterface<ReproModel<Ops>>(*context), ...);
}

void repro::registerReproAdjoints(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, ReproDialect *) {
    attachReproModels<ScanOp, SortOp, ArgReduceOp, ScatterOp, AttentionOp>(
        context);
  });
}
