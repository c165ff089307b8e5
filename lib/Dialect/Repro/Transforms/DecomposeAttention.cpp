//===- DecomposeAttention.cpp - Attention by blocks -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-decompose-attention (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: walks the program and replaces each
// attention and attention gradient by blocks of folds and element-wise
// operations in the order that (K5) defines.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/ImportedOps.h"
#include "dialects/Repro/IR/TensorBuilders.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <cmath>
#include <numeric>

namespace mlir::repro {
#define GEN_PASS_DEF_REPRODECOMPOSEATTENTION
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
/// A range of consecutive queries or keys.
struct Span {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

/// A tensor and, for each of its dimensions, the loop that indexes it.
struct Operand {
  /// Indexes dimension i of `tensor` by loop i. If the tensor has fewer
  /// dimensions than there are loops, its elements are broadcast.
  Operand(Value tensor) : tensor(tensor) {
    loops.resize(cast<RankedTensorType>(tensor.getType()).getRank());
    std::iota(loops.begin(), loops.end(), 0);
  }
  Operand(Value tensor, ArrayRef<unsigned> loops)
      : tensor(tensor), loops(loops) {}

  Value tensor;
  SmallVector<unsigned> loops;
};

using Body = llvm::function_ref<Value(ImplicitLocOpBuilder &, ValueRange)>;
} // namespace

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> getShape(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}

static Value createFloat(ImplicitLocOpBuilder &b, double value) {
  return arith::ConstantOp::create(b, b.getFloatAttr(b.getF32Type(), value));
}

static AffineMap getMap(ImplicitLocOpBuilder &b, unsigned numLoops,
                        ArrayRef<unsigned> loops) {
  return AffineMap::getMultiDimMapWithTargets(numLoops, loops, b.getContext());
}

/// Returns a tensor of `shape` whose elements `body` computes from elements of
/// `inputs`.
static Value compute(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                     Type element, ArrayRef<Operand> inputs, Body body) {
  SmallVector<Value> tensors;
  SmallVector<AffineMap> maps;
  for (const Operand &input : inputs) {
    tensors.push_back(input.tensor);
    maps.push_back(getMap(b, shape.size(), input.loops));
  }
  return mapElements(b, shape, element, tensors, maps, body);
}

/// Returns the first of `inputs` with its f32 elements replaced by those that
/// `body` computes.
static Value update(ImplicitLocOpBuilder &b, ArrayRef<Operand> inputs,
                    Body body) {
  return compute(b, getShape(inputs.front().tensor), b.getF32Type(), inputs,
                 body);
}

template <typename OpTy>
static Value update(ImplicitLocOpBuilder &b, Operand lhs, Operand rhs) {
  return update(b, {lhs, rhs}, [](ImplicitLocOpBuilder &b, ValueRange x) {
    return OpTy::create(b, x[0], x[1]);
  });
}

static Value multiply(ImplicitLocOpBuilder &b, Value tensor, double factor) {
  Value scalar = createFloat(b, factor);
  return update(b, {tensor}, [&](ImplicitLocOpBuilder &b, ValueRange x) {
    return arith::MulFOp::create(b, x[0], scalar);
  });
}

static Value fill(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                  double value) {
  Value scalar = createFloat(b, value);
  return compute(b, shape, b.getF32Type(), {},
                 [&](ImplicitLocOpBuilder &, ValueRange) { return scalar; });
}

/// Returns a fold of the f32 elements of `inputs` over the loop `reduction`,
/// starting from `start`.
static Value fold(ImplicitLocOpBuilder &b, ArrayRef<Operand> inputs,
                  unsigned numLoops, unsigned reduction, double start,
                  Body step) {
  SmallVector<int64_t> extents(numLoops);
  SmallVector<Value> tensors;
  SmallVector<AffineMap> maps;
  for (const Operand &input : inputs) {
    tensors.push_back(input.tensor);
    maps.push_back(getMap(b, numLoops, input.loops));
    for (auto [loop, extent] :
         llvm::zip_equal(input.loops, getShape(input.tensor)))
      extents[loop] = extent;
  }
  SmallVector<unsigned> parallel;
  SmallVector<int64_t> shape;
  SmallVector<Attribute> iterators;
  for (auto [loop, extent] : llvm::enumerate(extents)) {
    bool isReduced = loop == reduction;
    iterators.push_back(linalg::IteratorTypeAttr::get(
        b.getContext(), isReduced ? utils::IteratorType::reduction
                                  : utils::IteratorType::parallel));
    if (isReduced)
      continue;
    parallel.push_back(loop);
    shape.push_back(extent);
  }
  maps.push_back(getMap(b, numLoops, parallel));
  Value init = fill(b, shape, start);
  auto op = FoldOp::create(b, TypeRange{init.getType()}, tensors,
                           ValueRange{init}, b.getAffineMapArrayAttr(maps),
                           b.getArrayAttr(iterators), /*order=*/Attribute());
  SmallVector<Type> types(tensors.size() + 1, b.getF32Type());
  SmallVector<Location> locations(types.size(), b.getLoc());
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&op.getRegion(), {}, types, locations);
  YieldOp::create(b, step(b, body->getArguments()));
  return op.getResult(0);
}

/// (K1) Returns the contraction of x and y over the last of the loops n, i, j
/// and t.
static Value contract(ImplicitLocOpBuilder &b, Operand x, Operand y) {
  return fold(b, {x, y}, /*numLoops=*/4, /*reduction=*/3, 0.0,
              [](ImplicitLocOpBuilder &b, ValueRange x) {
                return math::FmaOp::create(b, x[0], x[1], x[2]);
              });
}

template <typename OpTy>
static Value reduce(ImplicitLocOpBuilder &b, Value tensor, unsigned dim,
                    double start) {
  return fold(b, {tensor}, getShape(tensor).size(), dim, start,
              [](ImplicitLocOpBuilder &b, ValueRange x) {
                return OpTy::create(b, x[0], x[1]);
              });
}

/// Returns the elements of `tensor` in `range` along dimension `dim`.
static Value slice(ImplicitLocOpBuilder &b, Value tensor, int64_t dim,
                   Span range) {
  ArrayRef<int64_t> shape = getShape(tensor);
  if (range.size() == shape[dim])
    return tensor;
  SmallVector<OpFoldResult> offsets(shape.size(), b.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(shape.size(), b.getIndexAttr(1));
  SmallVector<OpFoldResult> sizes =
      getAsIndexOpFoldResult(b.getContext(), shape);
  offsets[dim] = b.getIndexAttr(range.begin);
  sizes[dim] = b.getIndexAttr(range.size());
  return tensor::ExtractSliceOp::create(b, tensor, offsets, sizes, strides);
}

/// Returns `matrices` with `other` instead of the rows in the range `rows`.
static Value replaceRows(ImplicitLocOpBuilder &b, Value matrices, Value other,
                         Span rows) {
  ArrayRef<int64_t> shape = getShape(matrices);
  if (rows.size() == shape[1])
    return other;
  SmallVector<OpFoldResult> offsets(3, b.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(3, b.getIndexAttr(1));
  offsets[1] = b.getIndexAttr(rows.begin);
  return tensor::InsertSliceOp::create(
      b, other, matrices, offsets,
      getAsIndexOpFoldResult(b.getContext(), getShape(other)), strides);
}

static Value concatenate(ImplicitLocOpBuilder &b, int64_t dim,
                         ArrayRef<Value> tensors) {
  if (tensors.size() == 1)
    return tensors.front();
  return tensor::ConcatOp::create(b, dim, tensors);
}

//===----------------------------------------------------------------------===//
// (K5)
//===----------------------------------------------------------------------===//

/// Broadcasts `operand` from [n / g, ..] to [n, ..]: g consecutive items (batch
/// element and head) share one entry.
static Value shareItems(ImplicitLocOpBuilder &b, Value operand, int64_t items) {
  ArrayRef<int64_t> shape = getShape(operand);
  if (shape[0] == items)
    return operand;
  Value shared =
      compute(b, {shape[0], items / shape[0], shape[1], shape[2]},
              b.getF32Type(), {{operand, {0, 2, 3}}},
              [](ImplicitLocOpBuilder &, ValueRange x) { return x[0]; });
  return tensor::CollapseShapeOp::create(
      b, shared, ArrayRef<ReassociationIndices>{{0, 1}, {2}, {3}});
}

/// (P2) Sums gradients [n, ..] to [count, ..], over the items that share an
/// entry of the operand.
static Value addShared(ImplicitLocOpBuilder &b, Value gradient, int64_t count) {
  ArrayRef<int64_t> shape = getShape(gradient);
  if (shape[0] == count)
    return gradient;
  auto type = RankedTensorType::get(
      {count, shape[0] / count, shape[1], shape[2]}, b.getF32Type());
  Value groups = tensor::ExpandShapeOp::create(
      b, type, gradient, ArrayRef<ReassociationIndices>{{0, 1}, {2}, {3}});
  return reduce<arith::AddFOp>(b, groups, 1, 0.0);
}

namespace {
/// Creates the operations that replace one attention or attention gradient,
/// before that operation.
class Writer {
public:
  template <typename OpTy>
  explicit Writer(OpTy op)
      : b(op.getLoc(), op), block(op.getBlock()), isCausal(op.getCausal()),
        scale(op.getScale().convertToDouble()),
        queries(op.getQuery().getType().getDimSize(1)),
        keys(op.getKey().getType().getDimSize(1)), mask(op.getMask()) {
    int64_t items = op.getQuery().getType().getDimSize(0);
    q = multiply(b, op.getQuery(), scale);
    k = shareItems(b, op.getKey(), items);
    v = shareItems(b, op.getValue(), items);
    if (op.getRate())
      draw(op.getSeed(), op.getStep(), op.getSiteAttr(),
           op.getRate()->convertToDouble(), {items, queries, keys});
  }

  SmallVector<Value> writeResults();
  SmallVector<Value> writeGradients(AttentionGradientOp op);

private:
  /// Returns the number of leading keys that the first `count` queries may
  /// attend to.
  int64_t countKeys(int64_t count) const {
    return isCausal ? std::min(count, keys) : keys;
  }

  SmallVector<Span> divide(int64_t extent) const;
  void draw(Value seed, Value step, IntegerAttr site, double rate,
            ArrayRef<int64_t> shape);
  Value computeScores(Span rows, Span columns);
  Value drop(Value weights, Span rows, Span columns);

  ImplicitLocOpBuilder b;
  int64_t block;
  bool isCausal;
  double scale;
  int64_t queries, keys;
  /// The operands, with one entry per item (batch element and head) in the
  /// first dimension. `q` is already multiplied by `scale`; shared keys and
  /// values are repeated.
  Value q, k, v, mask;
  /// Dropout: `kept` has an i1 for each weight, true if the weight is kept;
  /// `factor` is the factor of the kept weights. Null without dropout.
  Value kept, factor;
};
} // namespace

SmallVector<Span> Writer::divide(int64_t extent) const {
  SmallVector<Span> ranges;
  for (int64_t begin = 0; begin < extent;) {
    int64_t end = block < extent - begin ? begin + block : extent;
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

void Writer::draw(Value seed, Value step, IntegerAttr site, double rate,
                  ArrayRef<int64_t> shape) {
  Value empty = tensor::EmptyOp::create(b, shape, b.getI1Type());
  kept = RandomOp::create(
             b, TypeRange{empty.getType()}, ValueRange{seed, step},
             ValueRange{empty},
             DistributionAttr::get(b.getContext(), Distribution::bernoulli),
             b.getFloatAttr(b.getF32Type(), 1.0 - rate),
             /*range=*/IntegerAttr(), site)
             .getResult(0);
  factor = createFloat(b, rate < 1.0 ? 1.0 / (1.0 - rate) : 0.0);
}

/// Returns the scores of the queries in `rows` and the keys in `columns`.
Value Writer::computeScores(Span rows, Span columns) {
  Value someQueries = slice(b, q, 1, rows), someKeys = slice(b, k, 1, columns);
  Value scores = contract(b, {someQueries, {0, 1, 3}}, {someKeys, {0, 2, 3}});
  if (mask) {
    Value masks = slice(b, slice(b, mask, 1, rows), 2, columns);
    if (!getElementTypeOrSelf(mask).isInteger(1))
      return update<arith::AddFOp>(b, scores, masks);
    Value none = createFloat(b, -INFINITY);
    return update(b, {scores, masks},
                  [&](ImplicitLocOpBuilder &b, ValueRange x) {
                    return arith::SelectOp::create(b, x[1], x[0], none);
                  });
  }
  // A causal mask has no effect if no key comes after the first query.
  if (!isCausal || columns.end <= rows.begin + 1)
    return scores;
  Value none = createFloat(b, -INFINITY);
  return update(b, {scores}, [&](ImplicitLocOpBuilder &b, ValueRange x) {
    Value row = linalg::IndexOp::create(b, 1);
    Value column = linalg::IndexOp::create(b, 2);
    Value offset =
        arith::ConstantIndexOp::create(b, rows.begin - columns.begin);
    Value last = arith::AddIOp::create(b, row, offset);
    Value isEarlier =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sle, column, last);
    return arith::SelectOp::create(b, isEarlier, x[0], none);
  });
}

Value Writer::drop(Value weights, Span rows, Span columns) {
  if (!kept)
    return weights;
  Value zero = createFloat(b, 0.0);
  return update(b, {weights, slice(b, slice(b, kept, 1, rows), 2, columns)},
                [&](ImplicitLocOpBuilder &b, ValueRange x) {
                  Value product = arith::MulFOp::create(b, x[0], factor);
                  return arith::SelectOp::create(b, x[1], product, zero);
                });
}

/// Returns the output and, for each query, the maximum of its scores and the
/// logarithm of the sum of its weights.
SmallVector<Value> Writer::writeResults() {
  SmallVector<Value> outputs, maxima, logarithms;
  // Replaces `none`, which marks a query without keys, by `replacement`.
  auto replace = [&](Value tensor, double none, double replacement) {
    if (!mask)
      return tensor;
    Value from = createFloat(b, none), to = createFloat(b, replacement);
    return update(b, {tensor}, [&](ImplicitLocOpBuilder &b, ValueRange x) {
      Value isNone =
          arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x[0], from);
      return arith::SelectOp::create(b, isNone, to, x[0]);
    });
  };
  for (Span rows : divide(queries)) {
    Span columns{0, countKeys(rows.end)};
    Value scores = computeScores(rows, columns);
    Value maximum = replace(reduce<arith::MaximumFOp>(b, scores, 2, -INFINITY),
                            -INFINITY, 0.0);
    Value weights =
        update(b, {scores, maximum}, [](ImplicitLocOpBuilder &b, ValueRange x) {
          return ExpOp::create(b, arith::SubFOp::create(b, x[0], x[1]));
        });
    Value total = replace(reduce<arith::AddFOp>(b, weights, 2, 0.0), 0.0, 1.0);
    Value left = drop(weights, rows, columns),
          someValues = slice(b, v, 1, columns);
    Value product = contract(b, {left, {0, 1, 3}}, {someValues, {0, 3, 2}});
    outputs.push_back(update<arith::DivFOp>(b, product, total));
    maxima.push_back(maximum);
    logarithms.push_back(
        update(b, {total}, [](ImplicitLocOpBuilder &b, ValueRange x) {
          return LogOp::create(b, x[0]);
        }));
  }
  return {concatenate(b, 1, outputs), concatenate(b, 1, maxima),
          concatenate(b, 1, logarithms)};
}

/// Returns the gradients of query, key and value, and of a float mask.
SmallVector<Value> Writer::writeGradients(AttentionGradientOp op) {
  Value gradient = op.getGradient();
  Value products = reduce<arith::AddFOp>(
      b, update<arith::MulFOp>(b, gradient, op.getOutput()), 2, 0.0);
  SmallVector<Value> keyGradients, valueGradients, maskGradients;
  Value queryGradient;
  int64_t numKeys = countKeys(queries);
  for (Span columns : divide(numKeys)) {
    Span rows{isCausal ? columns.begin : 0, queries};
    Value rowGradient = slice(b, gradient, 1, rows);
    Value weights = update(
        b,
        {computeScores(rows, columns), slice(b, op.getMaxima(), 1, rows),
         slice(b, op.getLogarithms(), 1, rows)},
        [](ImplicitLocOpBuilder &b, ValueRange x) {
          Value difference = arith::SubFOp::create(b, x[0], x[1]);
          return ExpOp::create(b, arith::SubFOp::create(b, difference, x[2]));
        });
    Value weightGradients = drop(contract(b, {rowGradient, {0, 1, 3}},
                                          {slice(b, v, 1, columns), {0, 2, 3}}),
                                 rows, columns);
    Value scoreGradients =
        update(b, {weights, weightGradients, slice(b, products, 1, rows)},
               [](ImplicitLocOpBuilder &b, ValueRange x) {
                 Value difference = arith::SubFOp::create(b, x[1], x[2]);
                 return arith::MulFOp::create(b, x[0], difference);
               });
    Value left = drop(weights, rows, columns);
    valueGradients.push_back(
        contract(b, {left, {0, 3, 1}}, {rowGradient, {0, 3, 2}}));
    Value someQueries = slice(b, q, 1, rows),
          someKeys = slice(b, k, 1, columns);
    keyGradients.push_back(
        contract(b, {scoreGradients, {0, 3, 1}}, {someQueries, {0, 3, 2}}));
    maskGradients.push_back(scoreGradients);
    Value part =
        contract(b, {scoreGradients, {0, 1, 3}}, {someKeys, {0, 3, 2}});
    if (!queryGradient) {
      queryGradient = part;
      continue;
    }
    part = update<arith::AddFOp>(b, slice(b, queryGradient, 1, rows), part);
    queryGradient = replaceRows(b, queryGradient, part, rows);
  }
  // The remaining keys, to which no query attends, have gradients of zero.
  if (numKeys < keys)
    for (auto [gradients, operand] :
         {std::pair(&keyGradients, k), std::pair(&valueGradients, v)}) {
      SmallVector<int64_t> shape(getShape(operand));
      shape[1] = keys - numKeys;
      gradients->push_back(fill(b, shape, 0.0));
    }
  SmallVector<Value> results{
      multiply(b, queryGradient, scale),
      addShared(b, concatenate(b, 1, keyGradients), getShape(op.getKey())[0]),
      addShared(b, concatenate(b, 1, valueGradients),
                getShape(op.getValue())[0])};
  if (op.getMaskGradient())
    results.push_back(concatenate(b, 2, maskGradients));
  return results;
}

namespace {
struct DecomposeAttention
    : public repro::impl::ReproDecomposeAttentionBase<DecomposeAttention> {
  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      SmallVector<Value> results;
      if (auto attention = dyn_cast<AttentionOp>(op))
        results = Writer(attention).writeResults();
      else if (auto gradient = dyn_cast<AttentionGradientOp>(op))
        results = Writer(gradient).writeGradients(gradient);
      else
        return;
      op->replaceAllUsesWith(results);
      op->erase();
    });
  }
};
} // namespace
