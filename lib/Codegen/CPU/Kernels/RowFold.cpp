//===- RowFold.cpp - Folds with lanes along the reduction -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The lanes of (F1) are the lanes of a few vectors in registers. A work item is
// one result.
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/Common/BodyVectorizer.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/ParallelLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

namespace {
/// The number of lanes used for a fold whose result does not depend on the
/// order (`anyOrder`).
constexpr int64_t kFreeLanes = 64;
/// The maximum number of accumulator vectors: SSE and AVX2 have 16 registers.
constexpr int64_t kMostVectors = 16;

/// Builds the kernel of a fold whose lanes lie along the reduction.
class RowFold {
public:
  RowFold(HostBuilder &b, FoldOp op) : b(b), fold(b, op) {}
  LogicalResult match();
  void expand();

private:
  /// Returns `acc`, the accumulators of lanes [base, base + width), after
  /// adding one element to each. `outer` has the values of all loops but the
  /// last.
  using Step = function_ref<Value(ArrayRef<Value> outer, Value base, Value acc,
                                  LaneMask mask)>;
  Value applyBody(ArrayRef<Value> outer, Value base, Value acc, LaneMask mask);
  /// (F1), (F2) Returns the fold of elements [begin, end) of the loops `loops`.
  /// `aligned`: each run begins at a multiple of the number of lanes.
  Value foldChunk(ArrayRef<CollapsedDim> loops, Value begin, Value end,
                  bool aligned, Step step);
  SmallVector<Value> foldRun(ArrayRef<Value> outer, Value lower, Value upper,
                             int64_t run, bool aligned, ValueRange carried,
                             Step step);
  /// Adds a block of elements, one for each lane, of which only elements
  /// [lower, upper) exist. A null `lower` means the start of the block.
  SmallVector<Value> foldPart(ArrayRef<Value> outer, Value block, Value lower,
                              Value upper, ValueRange carried, Step step);
  Value combineLanes(SmallVector<Value> vectors);
  Value foldElements();

  HostBuilder &b;
  FoldInfo fold;
  SmallVector<CollapsedDim> loops; ///< over the reduction; accesses: inputs
  int64_t lanes, width, vectors;   ///< lanes = width * vectors
  Type type;
  Value chunkBuffer;
  SmallVector<Value> coordinates, bases;
};
} // namespace

LogicalResult RowFold::match() {
  if (!fold.step || fold.n == 0 || fold.results == 0 ||
      !BodyVectorizer::canVectorize(*fold.op.getBody()))
    return failure();
  if (fold.lanes == 1 && !fold.anyOrder)
    return failure();
  type = fold.getAccumulatorType();
  lanes = fold.anyOrder ? kFreeLanes : fold.lanes;
  width = std::min(b.getNativeLanes(type), lanes);
  vectors = lanes / width;
  if (width < 2 || vectors > kMostVectors)
    return failure();
  SmallVector<const Access *> accesses;
  for (const Access &access : fold.inputs) {
    if (!access.linear)
      return failure();
    accesses.push_back(&access);
  }
  // The dimensions of a run are collapsed separately from the other dimensions,
  // because each run begins at lane 0.
  llvm::SmallBitVector fixed =
      getIndexedDims(*fold.op.getBody(), fold.sizes.size());
  unsigned runDims = fold.reduction.size();
  if (auto order = dyn_cast_if_present<OrderAttr>(fold.op.getOrderAttr()))
    if (order.getRun())
      runDims = order.getRun();
  SmallVector<unsigned> ordered(fold.reduction);
  if (fold.anyOrder && !fold.inputs.empty())
    llvm::stable_sort(ordered, [&](unsigned x, unsigned y) {
      return std::abs(fold.inputs.front().coefficients[x]) >
             std::abs(fold.inputs.front().coefficients[y]);
    });
  ArrayRef<unsigned> dims(ordered);
  loops = collapseDims(dims.drop_back(runDims), fold.sizes, accesses, fixed);
  SmallVector<CollapsedDim> run =
      collapseDims(dims.take_back(runDims), fold.sizes, accesses, fixed);
  if (run.empty())
    run.push_back({{}, 1, SmallVector<int64_t>(accesses.size(), 0)});
  if (run.size() > 1 && run.back().size % lanes != 0 && !fold.anyOrder)
    return failure();
  if (fold.anyOrder &&
      llvm::none_of(run.back().coefficients, [](int64_t c) { return c == 1; }))
    return failure();
  llvm::append_range(loops, run);
  return success();
}

Value RowFold::applyBody(ArrayRef<Value> outer, Value base, Value acc,
                         LaneMask mask) {
  SmallVector<Value> at(outer);
  at.push_back(base);
  for (auto [loop, value] : llvm::zip_equal(loops, at))
    if (loop.dims.size() == 1)
      coordinates[loop.dims[0]] = value;
  BodyVectorizer body(b, width, mask);
  body.index = [&](int64_t dim) {
    bool isInner = loops.back().dims.size() == 1 && loops.back().dims[0] == dim;
    return LaneValue{coordinates[dim],
                     isInner ? LaneValue::Iota : LaneValue::Uniform};
  };
  Block *block = fold.op.getBody();
  for (auto [i, access] : llvm::enumerate(fold.inputs)) {
    if (block->getArgument(i).use_empty())
      continue;
    if (!access.isMemory()) {
      body.map(block->getArgument(i), access.scalar);
      continue;
    }
    Value offset = b.add(bases[i], getLoopOffset(b, loops, at, i));
    int64_t stride = loops.back().coefficients[i];
    body.map(block->getArgument(i),
             stride ? b.loadVector(access.buffer, access.element, offset,
                                   stride, width, mask)
                    : b.load(access.buffer, access.element, offset));
  }
  body.map(block->getArguments().back(), acc);
  Value result = body.inlineBody(*block)[0];
  return isa<FloatType>(type) ? b.convertFloat(result, type) : result;
}

SmallVector<Value> RowFold::foldPart(ArrayRef<Value> outer, Value block,
                                     Value lower, Value upper,
                                     ValueRange carried, Step step) {
  SmallVector<Value> next;
  for (auto [v, acc] : llvm::enumerate(carried)) {
    Value base = b.add(block, v * width);
    Value count = b.min(b.sub(upper, base), b.index(width));
    auto fold = [&, acc = acc]() -> SmallVector<Value> {
      LaneMask mask = b.getMask(count, width);
      if (lower) {
        Value before = b.max(b.sub(lower, base), b.index(0));
        Value skipped = b.getMask(before, width).mask;
        Value all = b.constant(
            DenseElementsAttr::get(cast<VectorType>(skipped.getType()), true));
        mask.mask = arith::AndIOp::create(
            b, mask.mask, arith::XOrIOp::create(b, skipped, all));
      }
      Value stepped = step(outer, base, acc, mask);
      return {arith::SelectOp::create(b, mask.mask, stepped, acc)};
    };
    IntegerAttr known;
    if (matchPattern(count, m_Constant(&known))) {
      next.push_back(known.getInt() > 0 ? fold()[0] : acc);
      continue;
    }
    next.push_back(b.choose(b.less(b.index(0), count), fold, [&, acc = acc] {
      return SmallVector<Value>{acc};
    })[0]);
  }
  return next;
}

SmallVector<Value> RowFold::foldRun(ArrayRef<Value> outer, Value lower,
                                    Value upper, int64_t run, bool aligned,
                                    ValueRange carried, Step step) {
  SmallVector<Value> acc(carried);
  Value firstBlock = lower;
  if (!aligned) {
    Value head = b.rem(lower, lanes);
    Value start = b.sub(lower, head);
    Value isPart = b.less(b.index(0), head);
    acc = b.choose(
        isPart, [&] { return foldPart(outer, start, lower, upper, acc, step); },
        [&] { return acc; });
    firstBlock = b.select(isPart, b.add(start, lanes), start);
  }
  Value lastBlock = b.sub(upper, b.rem(upper, lanes));
  if (run >= lanes)
    acc = b.loop(firstBlock, lastBlock, lanes, acc,
                 [&](Value block, ValueRange carried) {
                   SmallVector<Value> next;
                   for (auto [v, value] : llvm::enumerate(carried))
                     next.push_back(step(outer, b.add(block, v * width), value,
                                         LaneMask()));
                   return next;
                 });
  if (run % lanes == 0 && aligned)
    return acc;
  // No block is left if the first block was incomplete and contained all
  // elements.
  Value start = b.max(firstBlock, lastBlock);
  Value isLeft = b.less(start, upper);
  auto fold = [&] { return foldPart(outer, start, {}, upper, acc, step); };
  if (matchPattern(isLeft, m_One()))
    return fold();
  return b.choose(isLeft, fold, [&] { return acc; });
}

Value RowFold::combineLanes(SmallVector<Value> parts) {
  // (F2) If there are fewer parts than `vectors`, the missing vectors have no
  // elements.
  bool isPadded = int64_t(parts.size()) < vectors;
  for (int64_t half = vectors / 2; half; half /= 2) {
    for (int64_t v = 0; v < half; ++v)
      if (v + half < int64_t(parts.size()))
        parts[v] = fold.combine(b, parts[v], parts[v + half]);
    if (int64_t(parts.size()) > half)
      parts.resize(half);
  }
  Value vector = parts[0];
  for (int64_t half = width / 2; half; half /= 2) {
    auto lowerLanes = llvm::to_vector(llvm::seq<int64_t>(half));
    auto upperLanes = llvm::to_vector(llvm::seq<int64_t>(half, 2 * half));
    Value lower = vector::ShuffleOp::create(b, vector, vector, lowerLanes);
    Value upper = vector::ShuffleOp::create(b, vector, vector, upperLanes);
    vector = fold.combine(b, lower, upper);
  }
  Value result = vector::ExtractOp::create(b, vector, int64_t(0));
  // (F2) counts absent lanes as +0, so a sum with absent lanes is never -0.
  // This code omits these lanes; if the result is then -0 (possible only for an
  // fma step), adding +0 corrects it.
  if (isPadded && isa<math::FmaOp>(fold.step))
    result = fold.combine(b, result, fold.getStart(b, 0));
  return result;
}

Value RowFold::foldChunk(ArrayRef<CollapsedDim> loops, Value begin, Value end,
                         bool aligned, Step step) {
  int64_t run = loops.back().size;
  int64_t used = std::min<int64_t>(vectors, llvm::divideCeil(run, width));
  SmallVector<Value> starts(used, fold.getStart(b, width));
  SmallVector<Value> acc = foldRuns(
      b, loops, begin, end, starts,
      [&](ArrayRef<Value> outer, Value lower, Value upper, ValueRange carried) {
        return foldRun(outer, lower, upper, run, aligned, carried, step);
      });
  return combineLanes(acc);
}

Value RowFold::foldElements() {
  int64_t chunk = fold.chunk;
  auto element = [&](ArrayRef<Value> outer, Value base, Value acc,
                     LaneMask mask) {
    return applyBody(outer, base, acc, mask);
  };
  int64_t chunks = llvm::divideCeil(fold.n, chunk);
  // Whether every chunk begins at a multiple of the number of lanes within its
  // run.
  bool aligned = chunks == 1 || (loops.size() == 1 && chunk % lanes == 0) ||
                 (loops.back().size % lanes == 0 && chunk % lanes == 0);
  if (chunks == 1)
    return foldChunk(loops, b.index(0), b.index(fold.n), aligned, element);
  auto chunkEnd = [&](Value start, int64_t n) {
    return b.min(b.add(start, chunk), b.index(n));
  };
  if (!fold.refold) {
    Value total =
        foldChunk(loops, b.index(0), b.index(chunk), aligned, element);
    return b.loop(b.index(chunk), b.index(fold.n), chunk, {total},
                  [&](Value start, ValueRange acc) {
                    Value result =
                        foldChunk(loops, start, chunkEnd(start, fold.n),
                                  aligned, element);
                    return SmallVector<Value>{fold.combine(b, acc[0], result)};
                  })[0];
  }
  b.loop(b.index(0), b.index(fold.n), chunk, [&](Value start) {
    Value result =
        foldChunk(loops, start, chunkEnd(start, fold.n), aligned, element);
    b.store(result, chunkBuffer, b.div(start, chunk));
  });
  // (F3) Refold: each pass folds the list of chunk results and overwrites the
  // front of this list, which it has already read, with a shorter list.
  for (int64_t n = chunks; n > 1; n = llvm::divideCeil(n, chunk)) {
    CollapsedDim list{{}, n, {1}};
    b.loop(b.index(0), b.index(n), chunk, [&](Value start) {
      Value result = foldChunk(
          list, start, chunkEnd(start, n), chunk % lanes == 0 || n <= chunk,
          [&](ArrayRef<Value>, Value base, Value acc, LaneMask mask) {
            return fold.combine(
                b, acc, b.loadVector(chunkBuffer, type, base, 1, width, mask));
          });
      b.store(result, chunkBuffer, b.div(start, chunk));
    });
  }
  return b.load(chunkBuffer, type, b.index(0));
}

void RowFold::expand() {
  if (fold.refold && fold.n > fold.chunk)
    chunkBuffer = b.getScratch(type, llvm::divideCeil(fold.n, fold.chunk));
  b.forEachItem([&](Value item) {
    coordinates.assign(fold.sizes.size(), b.index(0));
    for (auto [dim, at] : llvm::zip_equal(
             fold.parallel, b.delinearize(item, fold.parallelSizes)))
      coordinates[dim] = at;
    SmallVector<Value> origin = coordinates;
    bases.clear();
    for (const Access &access : fold.inputs)
      bases.push_back(access.isMemory() ? b.getOffset(access, origin)
                                        : Value());
    Value total = foldElements();
    const Access &output = fold.outputs[0];
    Value offset = b.getOffset(output, origin);
    bool isFloat = isa<FloatType>(type);
    Value init = fold.getConstantInit(b, 0, /*lanes=*/0);
    if (!init) {
      init = b.load(output.buffer, output.element, offset);
      if (isFloat)
        init = b.convertFloat(init, type);
    }
    Value result = b.canonicalizeNaN(fold.combine(b, init, total));
    if (isFloat)
      result = b.convertFloat(result, output.element);
    b.store(result, output.buffer, offset);
  });
  b.setWork(fold.results, kFoldGrainElements / fold.n);
}

LogicalResult repro::cpu::expandRowFold(HostBuilder &b, FoldOp op) {
  RowFold kernel(b, op);
  if (failed(kernel.match()))
    return failure();
  kernel.expand();
  return success();
}
