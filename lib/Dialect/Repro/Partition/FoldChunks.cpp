//===- FoldChunks.cpp - Folds that are cut at whole chunks ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (T4) The folds that compute the results of chunks, and that combine them.
//
//===----------------------------------------------------------------------===//

#include "FoldChunks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;

static int64_t getProduct(ArrayRef<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors)
    product *= factor;
  return product;
}

/// Whether the expression is the index of a loop.
static bool isLoop(AffineExpr expr, unsigned loop) {
  auto dim = dyn_cast<AffineDimExpr>(expr);
  return dim && dim.getPosition() == loop;
}

SmallVector<unsigned> FoldChunks::getLoops(utils::IteratorType type) const {
  SmallVector<unsigned> loops;
  for (auto [number, iterator] : llvm::enumerate(fold.getIteratorTypesArray()))
    if (iterator == type)
      loops.push_back(number);
  return loops;
}

//===----------------------------------------------------------------------===//
// The choice of chunks
//===----------------------------------------------------------------------===//

/// Sets the dimensions of the operands that the loop that is cut indexes.
/// Returns false if such a dimension also depends on other loops.
bool FoldChunks::setDimensions(bool joined) {
  SmallVector<unsigned> loops = {loop};
  if (joined)
    loops = getLoops(utils::IteratorType::reduction);
  SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
  for (AffineMap map : ArrayRef(maps).drop_back()) { // the output
    std::optional<Dimensions> found;
    for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
      if (llvm::none_of(
              loops, [&](unsigned loop) { return expr.isFunctionOfDim(loop); }))
        continue;
      if (!found)
        found = {unsigned(dim), 0};
      if (dim != found->first + found->count || found->count == loops.size() ||
          !isLoop(expr, loops[found->count]))
        return false;
      ++found->count;
    }
    if (found && found->count != loops.size())
      return false;
    dimensions.push_back(found);
  }
  // (A1) An operand has to give the extent of the iterations in a chunk.
  return llvm::any_of(dimensions, [](const auto &found) { return !!found; });
}

/// Sets the groups of a loop of n iterations, each of which contains `inner`
/// elements. Returns false if a chunk is not a number of whole iterations, or
/// if there is only one chunk.
bool FoldChunks::setGroups(int64_t n, int64_t inner, int64_t parts) {
  int64_t size;
  if (auto order = dyn_cast<OrderAttr>(fold.getOrderAttr())) {
    if (order.getChunk() % inner != 0)
      return false;
    size = order.getChunk() / inner;
  } else {
    size = llvm::divideCeil(n, std::max<int64_t>(parts, 1));
  }
  if (size >= n)
    return false;
  groups.push_back({0, n / size, size});
  if (int64_t rest = n % size)
    groups.push_back({n - rest, 1, rest});
  return true;
}

std::optional<FoldChunks> FoldChunks::get(FoldOp fold, bool joined,
                                          int64_t parts) {
  FoldChunks chunks(fold);
  chunks.step = fold.getStep();
  chunks.joined = joined;
  auto order = dyn_cast_or_null<OrderAttr>(fold.getOrderAttr());
  if (!chunks.step ||
      !(order || isa_and_nonnull<AnyOrderAttr>(fold.getOrderAttr())))
    return std::nullopt;
  // (F7) Only sums and products have accumulators of f32 for narrower results.
  Type type = chunks.getResultType();
  if (isa<FloatType>(type) && !type.isF32() && !type.isF64())
    return std::nullopt;
  // The number of an iteration differs in a chunk.
  bool readsIndex = false;
  fold.getRegion().walk([&](IndexOp) { readsIndex = true; });
  if (readsIndex)
    return std::nullopt;

  chunks.extents = fold.getExtents();
  SmallVector<unsigned> reductions =
      chunks.getLoops(utils::IteratorType::reduction);
  SmallVector<int64_t> sizes;
  for (unsigned loop : reductions)
    sizes.push_back(chunks.extents[loop]);
  int64_t n = getProduct(sizes);
  if (llvm::is_contained(chunks.extents, 0) || reductions.empty())
    return std::nullopt;
  if (order) {
    // (F1) The lane of an element has to be its number in the chunk modulo the
    // lanes.
    int64_t run = order.getRun()
                      ? getProduct(ArrayRef(sizes).take_back(order.getRun()))
                      : n;
    if (order.getChunk() % order.getLanes() != 0 ||
        (run != n && run % order.getLanes() != 0))
      return std::nullopt;
    // (F3) Only the start value of a product of chunk results is an identity.
    bool isSum = isa<arith::AddFOp, math::FmaOp>(chunks.step);
    if (!isSum && !isa<arith::MulFOp>(chunks.step))
      return std::nullopt;
    // A sum that begins with +0 is -0 only if a product of an fma underflows.
    if (isa<math::FmaOp>(chunks.step) &&
        order.getTotals() == Totals::sequential) {
      ArrayAttr inits = fold.getConstantInits();
      if (inits && cast<FloatAttr>(inits[0]).getValue().isNegZero())
        return std::nullopt;
      chunks.initLater = !inits;
    }
  }
  if (joined) {
    chunks.loop = reductions.front();
    if (!chunks.setGroups(n, 1, parts) || !chunks.setDimensions(true))
      return std::nullopt;
    return chunks;
  }
  // The loop that is cut is the innermost one that a chunk does not contain.
  int64_t inner = 1;
  for (int64_t i = reductions.size() - 1; i >= 0; --i) {
    bool isLast = llvm::all_of(ArrayRef(sizes).take_front(i),
                               [](int64_t size) { return size == 1; });
    chunks.loop = reductions[i];
    if (isLast || (order && order.getChunk() < inner * sizes[i])) {
      chunks.outer.assign(reductions.begin(), reductions.begin() + i);
      chunks.inner.assign(reductions.begin() + i + 1, reductions.end());
      if (!chunks.setGroups(sizes[i], inner, parts) ||
          !chunks.setDimensions(false) || (!isLast && chunks.groups.size() > 1))
        return std::nullopt;
      return chunks;
    }
    inner *= sizes[i];
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The chunk results
//===----------------------------------------------------------------------===//

int64_t FoldChunks::countChunks(const Group &group) const {
  int64_t count = group.count;
  for (unsigned number : outer)
    count *= extents[number];
  return count;
}

int64_t FoldChunks::countChunks() const {
  int64_t count = 0;
  for (const Group &group : groups)
    count += countChunks(group);
  return count;
}

SmallVector<int64_t> FoldChunks::getResultShape(const Group &group) const {
  SmallVector<int64_t> shape;
  for (unsigned number : outer)
    shape.push_back(extents[number]);
  shape.push_back(group.count);
  llvm::append_range(
      shape, cast<ShapedType>(fold.getOutputs()[0].getType()).getShape());
  return shape;
}

SmallVector<int64_t> FoldChunks::getResultShape() const {
  SmallVector<int64_t> shape = {countChunks()};
  llvm::append_range(
      shape, cast<ShapedType>(fold.getOutputs()[0].getType()).getShape());
  return shape;
}

Type FoldChunks::getResultType() const {
  return fold.getBody()->getArguments().back().getType();
}

TypedAttr FoldChunks::getIdentity() const {
  Type type = getResultType();
  if (isa<arith::AddFOp, math::FmaOp>(step))
    return FloatAttr::get(type, -0.0);
  return *arith::getNeutralElement(step);
}

/// Returns the type of the result of a fold into `output`: none for a buffer.
static TypeRange getTypes(Value &output) {
  return isa<RankedTensorType>(output.getType()) ? TypeRange(output.getType())
                                                 : TypeRange();
}

static ArrayAttr getIterators(OpBuilder &b, unsigned parallel,
                              unsigned reduction) {
  auto get = [&](utils::IteratorType type) -> Attribute {
    return linalg::IteratorTypeAttr::get(b.getContext(), type);
  };
  SmallVector<Attribute> iterators(parallel,
                                   get(utils::IteratorType::parallel));
  iterators.append(reduction, get(utils::IteratorType::reduction));
  return b.getArrayAttr(iterators);
}

FoldOp FoldChunks::computeChunks(OpBuilder &b, ValueRange inputs,
                                 Value results) const {
  // The loops are those around the loop that is cut, the number of the chunk,
  // the parallel loops, the iterations in a chunk, and the loops in these.
  SmallVector<unsigned> parallel = getLoops(utils::IteratorType::parallel);
  SmallVector<AffineExpr> loops(extents.size());
  unsigned count = 0;
  auto add = [&]() { return b.getAffineDimExpr(count++); };
  for (unsigned number : outer)
    loops[number] = add();
  AffineExpr chunk = add();
  for (unsigned number : parallel)
    loops[number] = add();
  unsigned numParallel = count;
  AffineExpr iteration = add();
  for (unsigned number : inner)
    loops[number] = add();
  SmallVector<AffineMap> maps;
  for (auto [found, map] : llvm::zip(dimensions, fold.getIndexingMapsArray())) {
    SmallVector<AffineExpr> exprs;
    for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
      if (!found || dim < found->first || dim >= found->first + found->count)
        exprs.push_back(expr.replaceDims(loops));
      else if (dim == found->first)
        exprs.append({chunk, iteration});
    }
    maps.push_back(AffineMap::get(count, 0, exprs, b.getContext()));
  }
  SmallVector<AffineExpr> exprs;
  for (unsigned number : outer)
    exprs.push_back(loops[number]);
  exprs.push_back(chunk);
  for (AffineExpr expr : getResultMap().getResults())
    exprs.push_back(expr.replaceDims(loops));
  maps.push_back(AffineMap::get(count, 0, exprs, b.getContext()));
  Attribute order = fold.getOrderAttr();
  if (auto known = dyn_cast<OrderAttr>(order))
    order = OrderAttr::get(b.getContext(), known.getChunk(), known.getLanes(),
                           /*run=*/0, known.getTotals());
  auto result =
      FoldOp::create(b, fold.getLoc(), getTypes(results), inputs,
                     ValueRange{results}, b.getAffineMapArrayAttr(maps),
                     getIterators(b, numParallel, count - numParallel), order);
  IRMapping mapping;
  fold.getRegion().cloneInto(&result.getRegion(), mapping);
  return result;
}

FoldOp FoldChunks::combine(OpBuilder &b, Value results, Value output) const {
  Location loc = fold.getLoc();
  SmallVector<unsigned> parallel = getLoops(utils::IteratorType::parallel);
  SmallVector<AffineExpr> loops(extents.size());
  for (auto [i, number] : llvm::enumerate(parallel))
    loops[number] = b.getAffineDimExpr(i);
  unsigned count = parallel.size() + 1;
  SmallVector<AffineExpr> exprs = {b.getAffineDimExpr(count - 1)};
  for (AffineExpr expr : getResultMap().getResults())
    exprs.push_back(expr.replaceDims(loops));
  AffineMap maps[] = {
      AffineMap::get(count, 0, exprs, b.getContext()),
      AffineMap::get(count, 0, ArrayRef(exprs).drop_front(), b.getContext())};
  Attribute order = fold.getOrderAttr();
  if (initLater)
    order = SequentialAttr::get(b.getContext());
  else if (auto known = dyn_cast<OrderAttr>(order))
    order = known.getTotals() == Totals::refold
                ? OrderAttr::get(b.getContext(), known.getChunk(),
                                 known.getLanes(), /*run=*/0, Totals::refold)
                : OrderAttr::get(b.getContext(), /*chunk=*/1, /*lanes=*/1,
                                 /*run=*/0, Totals::sequential);
  auto result = FoldOp::create(
      b, loc, getTypes(output), ValueRange{results}, ValueRange{output},
      b.getAffineMapArrayAttr(maps), getIterators(b, count - 1, 1), order);
  OpBuilder::InsertionGuard guard(b);
  Type type = getResultType();
  Block *body =
      b.createBlock(&result.getRegion(), {}, {type, type}, {loc, loc});
  Value element = body->getArgument(0), sum = body->getArgument(1);
  if (initLater) {
    // (F6) A sequential fold must not have the body sum + element.
    element = arith::NegFOp::create(b, loc, element);
    sum = arith::SubFOp::create(b, loc, sum, element);
  } else if (isa<math::FmaOp>(step)) {
    sum = arith::AddFOp::create(b, loc, sum, element);
  } else {
    OperationState state(loc, step->getName());
    state.addOperands({sum, element});
    state.addTypes(type);
    sum = b.create(state)->getResult(0);
  }
  repro::YieldOp::create(b, loc, ValueRange{sum});
  return result;
}

linalg::GenericOp FoldChunks::combineInit(OpBuilder &b, Value totals,
                                          Value output) const {
  auto type = cast<ShapedType>(output.getType());
  Type resultType = getResultType();
  SmallVector<AffineMap> maps(2, b.getMultiDimIdentityMap(type.getRank()));
  SmallVector<utils::IteratorType> iterators(type.getRank(),
                                             utils::IteratorType::parallel);
  return linalg::GenericOp::create(
      b, fold.getLoc(), getTypes(output), ValueRange{totals},
      ValueRange{output}, maps, iterators,
      [&](OpBuilder &b, Location loc, ValueRange args) {
        Value init = args[1];
        if (init.getType() != resultType)
          init = arith::ExtFOp::create(b, loc, resultType, init);
        Value sum = arith::AddFOp::create(b, loc, init, args[0]);
        if (sum.getType() != type.getElementType())
          sum = arith::TruncFOp::create(b, loc, type.getElementType(), sum);
        linalg::YieldOp::create(b, loc, sum);
      });
}
