//===- Accesses.cpp - Adjoints of accesses within loops (J4) --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Loops.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace mlir::repro;

namespace {
/// An index of an access as a sum: constant + factors[i] * dimension i.
struct IndexSum {
  SmallVector<int64_t> factors;
  int64_t constant = 0;
};
} // namespace

/// Adds `factor` * `expr` to `sum`. Returns false if `expr` is not a sum of a
/// constant and multiples of dimensions.
static bool addTerms(AffineExpr expr, int64_t factor, IndexSum &sum) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    sum.constant += factor * constant.getValue();
    return true;
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    sum.factors[dim.getPosition()] += factor;
    return true;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return false;
  if (expr.getKind() == AffineExprKind::Add)
    return addTerms(binary.getLHS(), factor, sum) &&
           addTerms(binary.getRHS(), factor, sum);
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  return expr.getKind() == AffineExprKind::Mul && constant &&
         addTerms(binary.getLHS(), factor * constant.getValue(), sum);
}

static std::optional<SmallVector<IndexSum>> getSums(AffineMap map) {
  SmallVector<IndexSum> sums;
  for (AffineExpr expr : map.getResults()) {
    IndexSum &sum = sums.emplace_back();
    sum.factors.resize(map.getNumDims());
    if (!addTerms(expr, 1, sum))
      return std::nullopt;
  }
  return sums;
}

/// Sums `updates` into a tensor of `type`. Row i of `indices` [n, rank] is the
/// position to which update i is added.
static Value scatter(ImplicitLocOpBuilder &b, Value updates, Value indices,
                     RankedTensorType type) {
  Value zeros = makeZero(b, type);
  return ScatterOp::create(b, TypeRange{type}, ValueRange{updates, indices},
                           ValueRange{zeros}, Combine::add)
      .getResult(0);
}

static Value createIndex(ImplicitLocOpBuilder &b, int64_t number) {
  return arith::ConstantIndexOp::create(b, number);
}

namespace {
/// Describes how to find the points that access an element: each index sum is
/// solved for one loop dimension, given the element's index and the other
/// dimensions. A point counts if the solved dimensions are in range.
struct Solution {
  SmallVector<int64_t> solved; ///< the dimension of each sum, or -1
  SmallVector<unsigned> order; ///< the order in which sums are solved
  SmallVector<int64_t> left;   ///< the other dimensions
};
} // namespace

static Solution solve(ArrayRef<IndexSum> sums, ArrayRef<int64_t> extents) {
  unsigned numDims = extents.size();
  Solution solution;
  solution.solved.assign(sums.size(), -1);
  // Solve sums of fewer dimensions first; sums of more dimensions use these
  // solutions.
  solution.order = llvm::to_vector(llvm::seq<unsigned>(0, sums.size()));
  auto count = [&](unsigned i) {
    return llvm::count_if(sums[i].factors, [](int64_t f) { return f != 0; });
  };
  llvm::stable_sort(solution.order, [&](unsigned a, unsigned c) {
    return count(a) < count(c);
  });
  llvm::SmallBitVector isSolved(numDims), isLeft(numDims);
  for (unsigned i : solution.order) {
    int64_t best = -1;
    for (unsigned dim = 0; dim < numDims; ++dim)
      if (sums[i].factors[dim] != 0 && !isSolved[dim] && !isLeft[dim] &&
          (best < 0 || extents[dim] > extents[best]))
        best = dim;
    solution.solved[i] = best;
    if (best >= 0)
      isSolved.set(best);
    for (unsigned dim = 0; dim < numDims; ++dim)
      if (sums[i].factors[dim] != 0 && !isSolved[dim])
        isLeft.set(dim);
  }
  for (unsigned dim = 0; dim < numDims; ++dim)
    if (!isSolved[dim])
      solution.left.push_back(dim);
  return solution;
}

/// Returns the element of `values` at a point, or zero if the point is out of
/// range. `solution` gives the point for the current indices of the loops that
/// `accumulateSums` creates.
static Value readPoint(ImplicitLocOpBuilder &b, Value values,
                       ArrayRef<IndexSum> sums, const Solution &solution,
                       ArrayRef<int64_t> extents) {
  SmallVector<Value> point(extents.size());
  unsigned rank = sums.size();
  for (auto [i, dim] : llvm::enumerate(solution.left))
    point[dim] = linalg::IndexOp::create(b, rank + i);
  Value isValid;
  auto require = [&](Value condition) {
    isValid = isValid ? arith::AndIOp::create(b, isValid, condition).getResult()
                      : condition;
  };
  for (unsigned i : solution.order) {
    Value rest = linalg::IndexOp::create(b, i);
    const IndexSum &sum = sums[i];
    rest = arith::SubIOp::create(b, rest, createIndex(b, sum.constant));
    int64_t dim = solution.solved[i];
    for (auto [other, factor] : llvm::enumerate(sum.factors))
      if (factor != 0 && int64_t(other) != dim)
        rest = arith::SubIOp::create(
            b, rest,
            arith::MulIOp::create(b, point[other], createIndex(b, factor)));
    Value zero = createIndex(b, 0);
    if (dim < 0) {
      require(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rest, zero));
      continue;
    }
    if (int64_t factor = sum.factors[dim]; factor != 1) {
      Value divisor = createIndex(b, factor);
      Value remainder = arith::RemSIOp::create(b, rest, divisor);
      require(
          arith::CmpIOp::create(b, arith::CmpIPredicate::eq, remainder, zero));
      rest = arith::DivSIOp::create(b, rest, divisor);
    }
    Value extent = createIndex(b, extents[dim]);
    Value atLeast =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, rest, zero);
    Value below =
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, rest, extent);
    Value inside = arith::AndIOp::create(b, atLeast, below);
    require(inside);
    point[dim] = arith::SelectOp::create(b, inside, rest, zero);
  }
  Value element = tensor::ExtractOp::create(b, values, point);
  return isValid ? arith::SelectOp::create(b, isValid, element,
                                           makeZero(b, element.getType()))
                       .getResult()
                 : element;
}

/// Returns a tensor of `type` in which each element is the sum of `values` over
/// the points where `sums` equal the element's position.
static Value accumulateSums(ImplicitLocOpBuilder &b, Value values,
                            ArrayRef<IndexSum> sums, ArrayRef<int64_t> extents,
                            RankedTensorType type) {
  Solution solution = solve(sums, extents);
  auto read = [&](ImplicitLocOpBuilder &inner) {
    return readPoint(inner, values, sums, solution, extents);
  };
  if (solution.left.empty())
    return mapElements(
        b, type.getShape(), type.getElementType(), {}, {},
        [&](ImplicitLocOpBuilder &inner, ValueRange) { return read(inner); });
  unsigned rank = type.getRank(), numLoops = rank + solution.left.size();
  SmallVector<int64_t> window;
  SmallVector<AffineExpr> result, reduced;
  SmallVector<utils::IteratorType> iterators(numLoops,
                                             utils::IteratorType::parallel);
  for (unsigned i = 0; i < numLoops; ++i)
    (i < rank ? result : reduced).push_back(b.getAffineDimExpr(i));
  for (auto [i, dim] : llvm::enumerate(solution.left)) {
    window.push_back(extents[dim]);
    iterators[rank + i] = utils::IteratorType::reduction;
  }
  Type accumulator = getDerivativeType(type.getElementType());
  auto wide = RankedTensorType::get(type.getShape(), accumulator);
  Value extentsOnly = tensor::EmptyOp::create(b, window, accumulator);
  auto generic = linalg::GenericOp::create(
      b, TypeRange{wide}, ValueRange{extentsOnly},
      ValueRange{makeZero(b, wide)},
      ArrayRef<AffineMap>{AffineMap::get(numLoops, 0, reduced, b.getContext()),
                          AffineMap::get(numLoops, 0, result, b.getContext())},
      iterators, [&](OpBuilder &nested, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder inner(loc, nested);
        Value element = Scalar(inner, read(inner)).convert(accumulator).get();
        Value sum = arith::AddFOp::create(inner, element, arguments.back());
        linalg::YieldOp::create(inner, sum);
      });
  return convertElements(b, generic.getResult(0), type.getElementType());
}

Value repro::accumulate(ImplicitLocOpBuilder &b, const Loops &loops,
                        Value values, ArrayRef<int64_t> dims, AffineMap map,
                        RankedTensorType type) {
  // The loops have no iterations, so there is nothing to sum.
  if (cast<RankedTensorType>(values.getType()).getNumElements() == 0)
    return makeZero(b, type);
  // Express the map in the dimensions of `values`.
  SmallVector<AffineExpr> replacements(map.getNumDims());
  SmallVector<int64_t> extents;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    replacements[dim] = b.getAffineDimExpr(i);
    extents.push_back(loops.extents[dim]);
  }
  for (AffineExpr &expr : replacements)
    if (!expr)
      expr = b.getAffineConstantExpr(0);
  map = map.replaceDimsAndSymbols(replacements, {}, dims.size(), 0);
  if (auto sums = getSums(map))
    return accumulateSums(b, values, *sums, extents, type);

  int64_t rank = type.getRank();
  SmallVector<int64_t> shape(extents);
  shape.push_back(rank);
  Value indices = mapElements(
      b, shape, b.getI64Type(), {}, {},
      [&](ImplicitLocOpBuilder &b, ValueRange) -> Value {
        SmallVector<Value> position;
        for (unsigned i = 0; i < dims.size(); ++i)
          position.push_back(linalg::IndexOp::create(b, i));
        Value column = linalg::IndexOp::create(b, dims.size());
        Value chosen;
        for (auto [i, expr] : llvm::enumerate(map.getResults())) {
          Value index =
              affine::expandAffineExpr(b, b.getLoc(), expr, position, {});
          Value isColumn = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                                 column, createIndex(b, i));
          chosen = chosen ? arith::SelectOp::create(b, isColumn, index, chosen)
                                .getResult()
                          : index;
        }
        return arith::IndexCastOp::create(b, b.getI64Type(), chosen);
      });
  int64_t count = ShapedType::getNumElements(extents);
  return scatter(b, reshape(b, values, {count}),
                 reshape(b, indices, {count, rank}), type);
}

//===----------------------------------------------------------------------===//
// Elements at computed indices
//===----------------------------------------------------------------------===//

/// Adds to `slice` the operations of the body on which `values` depend, and to
/// `dims` the loop dimensions on which `values` depend.
static void getSlice(const Loops &loops, ValueRange values,
                     DenseSet<Operation *> &slice, llvm::SmallBitVector &dims) {
  SmallVector<Value> worklist(values);
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getOwner() == loops.body)
        for (unsigned dim = 0; dim < dims.size(); ++dim)
          if (loops.reads[argument.getArgNumber()].map.isFunctionOfDim(dim))
            dims.set(dim);
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (op->getBlock() != loops.body || !slice.insert(op).second)
      continue;
    if (auto index = dyn_cast<linalg::IndexOp>(op))
      dims.set(index.getDim());
    if (auto index = dyn_cast<repro::IndexOp>(op))
      dims.set(index.getDim());
    llvm::append_range(worklist, op->getOperands());
  }
}

/// Returns the dimension of the loops whose index is `index`; -1 if `index` is
/// another value.
static int64_t getPositionDim(Value index) {
  if (auto op = index.getDefiningOp<linalg::IndexOp>())
    return op.getDim();
  if (auto op = index.getDefiningOp<repro::IndexOp>())
    return op.getDim();
  return -1;
}

Value repro::accumulate(ImplicitLocOpBuilder &b, const Loops &loops,
                        tensor::ExtractOp read, ArrayRef<Loops::Read> extra,
                        PointFunction compute) {
  RankedTensorType type = read.getTensor().getType();
  unsigned numLoops = loops.extents.size();
  // Trailing indices that traverse whole dimensions form a row, which needs no
  // indices.
  SmallVector<Value> indices(read.getIndices());
  SmallVector<int64_t> row;
  while (!indices.empty()) {
    int64_t dim = getPositionDim(indices.back());
    if (dim < 0 || llvm::is_contained(row, dim) ||
        loops.extents[dim] != type.getDimSize(indices.size() - 1))
      break;
    indices.pop_back();
    row.insert(row.begin(), dim);
  }
  llvm::SmallBitVector used(numLoops);
  DenseSet<Operation *> slice;
  getSlice(loops, indices, slice, used);
  while (!row.empty() &&
         llvm::any_of(row, [&](int64_t dim) { return used[dim]; })) {
    indices.push_back(read.getIndices()[indices.size()]);
    row.erase(row.begin());
    getSlice(loops, indices, slice, used);
  }

  SmallVector<int64_t> outer;
  for (unsigned dim = 0; dim < numLoops; ++dim)
    if (!llvm::is_contained(row, int64_t(dim)))
      outer.push_back(dim);
  int64_t depth = indices.size();
  SmallVector<int64_t> dims(depth == 0 ? ArrayRef<int64_t>() : outer);
  llvm::append_range(dims, row);
  Value updates =
      computeOver(b, loops, dims, type.getElementType(), extra, compute);
  // If no index remains, all points read the same row, and `updates` is already
  // the sum over the points.
  if (!updates || depth == 0)
    return updates;
  if (cast<RankedTensorType>(updates.getType()).getNumElements() == 0)
    return makeZero(b, type);

  // The shape of the indices: the outer dimensions, then a dimension that
  // numbers the indices of a point.
  SmallVector<AffineExpr> replacements(numLoops, b.getAffineConstantExpr(0));
  SmallVector<int64_t> shape;
  for (auto [i, dim] : llvm::enumerate(outer)) {
    replacements[dim] = b.getAffineDimExpr(i);
    shape.push_back(loops.extents[dim]);
  }
  int64_t count = ShapedType::getNumElements(shape);
  shape.push_back(depth);
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  SmallVector<BlockArgument> arguments;
  for (BlockArgument argument : loops.body->getArguments()) {
    if (llvm::none_of(argument.getUsers(),
                      [&](Operation *user) { return slice.contains(user); }) &&
        !llvm::is_contained(indices, argument))
      continue;
    const Loops::Read &operand = loops.reads[argument.getArgNumber()];
    arguments.push_back(argument);
    inputs.push_back(operand.value);
    maps.push_back(operand.map.replaceDimsAndSymbols(replacements, {},
                                                     outer.size() + 1, 0));
  }
  Value columns = mapElements(
      b, shape, b.getI64Type(), inputs, maps,
      [&](ImplicitLocOpBuilder &b, ValueRange elements) -> Value {
        IRMapping point;
        for (auto [argument, element] : llvm::zip_equal(arguments, elements))
          point.map(argument, element);
        for (Operation &op : *loops.body) {
          if (!slice.contains(&op))
            continue;
          int64_t dim =
              op.getNumResults() ? getPositionDim(op.getResult(0)) : -1;
          if (dim < 0)
            cloneAtPoint(b, op, point);
          else
            point.map(
                op.getResult(0),
                linalg::IndexOp::create(
                    b, std::distance(outer.begin(), llvm::find(outer, dim)))
                    .getResult());
        }
        Value column = linalg::IndexOp::create(b, outer.size());
        Value chosen;
        for (auto [i, index] : llvm::enumerate(indices)) {
          Value here = point.lookupOrDefault(index);
          Value isColumn = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                                 column, createIndex(b, i));
          chosen = chosen ? arith::SelectOp::create(b, isColumn, here, chosen)
                                .getResult()
                          : here;
        }
        return arith::IndexCastOp::create(b, b.getI64Type(), chosen);
      });
  SmallVector<int64_t> rows{count};
  llvm::append_range(rows, type.getShape().drop_front(depth));
  return scatter(b, reshape(b, updates, rows),
                 reshape(b, columns, {count, depth}), type);
}
