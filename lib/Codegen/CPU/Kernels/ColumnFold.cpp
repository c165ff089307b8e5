//===- ColumnFold.cpp - Folds with one result per vector lane -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A work item is a panel: a few vectors of results along the output's last
// dimension in memory, with accumulators in registers. For folds over long
// rows, a thread instead processes all its panels together: it reads rows in
// memory order and keeps the accumulators in memory.
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/HostKernels.h"
#include "Codegen/Common/BodyVectorizer.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/ParallelLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

namespace {
/// The maximum numbers of elements of an unrolled fold and of operations in its
/// code, which should stay in the instruction cache.
constexpr int64_t kUnrolledElements = 32, kUnrolledOperations = 256;
/// The number of vectors of a panel. The accumulators of different vectors are
/// independent, so the latency of a step is hidden.
constexpr int64_t kPanelVectors = 4;
/// The maximum number of operations in a fold body for which several vectors or
/// rows are processed together; larger bodies would spill registers.
constexpr int64_t kBodyOperations = 16;
/// If a fold reads more than kThreadElements elements, its panels are made
/// narrower until there are kLeastPanels, which a few threads can share.
constexpr int64_t kLeastPanels = 4, kThreadElements = 65536;
/// The maximum number of accumulators kept in memory. This many accumulators
/// take a small part of an L1 cache.
constexpr int64_t kRowElements = 1024;
/// This many rows are folded at once into accumulators in memory, which are
/// then loaded and stored less often. Hardware prefetchers could not follow
/// many more rows.
constexpr int64_t kRowsAtOnce = 4;
/// The minimum number of rows for which accumulators in memory are worthwhile.
constexpr int64_t kLeastRows = 64;

/// Builds the kernel of a fold in which each vector lane computes one result.
class ColumnFold {
public:
  ColumnFold(HostBuilder &b, FoldOp op) : b(b), fold(b, op) {}
  LogicalResult match();
  void expand();

private:
  /// One accumulator for each vector and output; those of the outputs of one
  /// vector are adjacent.
  using Accumulators = SmallVector<Value>;
  Accumulators applyBody(ArrayRef<Value> reductionAt, ValueRange accumulators);
  Accumulators foldRange(Value begin, Value end, ValueRange starts);
  Accumulators foldElements();
  Accumulators foldUnrolled();
  /// Sets the coordinates and base offsets of all parallel loops except the
  /// last.
  void setOuter(ArrayRef<Value> at);
  void emitVectors(Value inner, int64_t count, LaneMask lanesMask);
  void expandPanels();
  /// Whether the fold reads many rows that are longer than a panel and
  /// contiguous in memory.
  bool hasLongRows();
  /// Calls `body` for each vector of columns [firstColumn, endColumn), with
  /// `innerStart` and `mask` set.
  void forEachVector(function_ref<void()> body);
  Value loadSums(Value buffer);
  void storeSums(Value sums, Value buffer);
  /// Prefetches the current columns of rows [row, row + count).
  void fetchRows(Value row, int64_t count);
  /// (F1) Folds rows [begin, end) of columns [firstColumn, endColumn) into the
  /// accumulators in `buffer`.
  void foldRows(Value buffer, Value begin, Value end);
  void expandByRows();
  Value loadOutput(unsigned i, int64_t v);
  void storeOutput(unsigned i, int64_t v, Value value);

  HostBuilder &b;
  FoldInfo fold;
  SmallVector<CollapsedDim> parallel;  ///< accesses: inputs, outputs
  SmallVector<CollapsedDim> reduction; ///< accesses: inputs
  int64_t width, vectors = kPanelVectors;
  bool unrolled = false, byRows = false;
  // The coordinates, base offsets and lanes of the vectors that are being
  // computed.
  SmallVector<Value> coordinates, bases;
  Value innerStart;
  int64_t vectorCount = 0;
  LaneMask mask;
  // The columns whose accumulators are in memory. firstColumn is a multiple of
  // the vector width.
  Value firstColumn, endColumn;
};
} // namespace

LogicalResult ColumnFold::match() {
  Block &body = *fold.op.getBody();
  if (fold.n == 0 || fold.results == 0 || !BodyVectorizer::canVectorize(body))
    return failure();
  if (fold.step && fold.refold && fold.n > fold.chunk)
    return failure();
  int64_t operations = std::distance(body.begin(), body.end());
  if (fold.step && fold.lanes > 1) {
    if (fold.n > kUnrolledElements || fold.n > fold.chunk ||
        fold.n * operations > kUnrolledOperations)
      return failure();
    unrolled = true;
    vectors = 1;
  }
  if (fold.outputs.size() > 1 || operations > kBodyOperations)
    vectors = 1;
  SmallVector<const Access *> inputs, accesses;
  for (const Access &access : fold.inputs)
    inputs.push_back(&access);
  accesses = inputs;
  for (const Access &access : fold.outputs)
    accesses.push_back(&access);
  if (llvm::any_of(accesses, [](const Access *a) { return !a->linear; }))
    return failure();
  SmallVector<unsigned> dims(fold.parallel);
  const Access &output = fold.outputs[0];
  llvm::stable_sort(dims, [&](unsigned x, unsigned y) {
    return output.coefficients[x] > output.coefficients[y];
  });
  llvm::SmallBitVector fixed = getIndexedDims(body, fold.sizes.size());
  parallel = collapseDims(dims, fold.sizes, accesses, fixed);
  reduction = collapseDims(fold.reduction, fold.sizes, inputs, fixed);
  if (parallel.empty())
    return failure();
  width = b.getNativeLanes(fold.getAccumulatorType());
  if (parallel.back().size < 2 || width < 2)
    return failure();
  int64_t size = parallel.back().size;
  vectors = std::min<int64_t>(vectors, llvm::divideCeil(size, width));
  // Narrower panels let a few threads share a long fold with few results.
  auto countPanels = [&] {
    return fold.results / size * llvm::divideCeil(size, vectors * width);
  };
  while (vectors > 1 && countPanels() < kLeastPanels &&
         fold.n * fold.results > kThreadElements)
    vectors /= 2;
  byRows =
      fold.step && !unrolled && operations <= kBodyOperations && hasLongRows();
  return success();
}

bool ColumnFold::hasLongRows() {
  if (parallel.size() != 1 || reduction.size() != 1)
    return false;
  auto isInRowOrOne = [](int64_t stride) { return stride == 0 || stride == 1; };
  return fold.n >= kLeastRows && parallel[0].size > vectors * width &&
         llvm::all_of(
             ArrayRef(parallel[0].coefficients).take_front(fold.inputs.size()),
             isInRowOrOne);
}

ColumnFold::Accumulators ColumnFold::applyBody(ArrayRef<Value> reductionAt,
                                               ValueRange accumulators) {
  for (auto [loop, value] : llvm::zip_equal(reduction, reductionAt))
    if (loop.dims.size() == 1)
      coordinates[loop.dims[0]] = value;
  Accumulators next;
  Block *block = fold.op.getBody();
  const CollapsedDim &inner = parallel.back();
  unsigned outputs = fold.outputs.size();
  for (int64_t v = 0; v < vectorCount; ++v) {
    Value start = b.add(innerStart, v * width);
    BodyVectorizer body(b, width, mask);
    body.index = [&](int64_t dim) {
      if (inner.dims.size() == 1 && inner.dims[0] == dim)
        return LaneValue{start, LaneValue::Iota};
      return LaneValue{coordinates[dim]};
    };
    for (auto [i, access] : llvm::enumerate(fold.inputs)) {
      if (block->getArgument(i).use_empty())
        continue;
      if (!access.isMemory()) {
        body.map(block->getArgument(i), access.scalar);
        continue;
      }
      int64_t stride = inner.coefficients[i];
      Value offset = b.add(b.add(bases[i], b.mul(start, stride)),
                           getLoopOffset(b, reduction, reductionAt, i));
      body.map(block->getArgument(i),
               stride ? b.loadVector(access.buffer, access.element, offset,
                                     stride, width, mask)
                      : b.load(access.buffer, access.element, offset));
    }
    for (unsigned i = 0; i < outputs; ++i)
      body.map(block->getArgument(fold.inputs.size() + i),
               accumulators[v * outputs + i]);
    for (auto [i, result] : llvm::enumerate(body.inlineBody(*block)))
      next.push_back(isa<FloatType>(fold.getAccumulatorType(i))
                         ? b.convertFloat(result, fold.getAccumulatorType(i))
                         : result);
  }
  return next;
}

ColumnFold::Accumulators ColumnFold::foldRange(Value begin, Value end,
                                               ValueRange starts) {
  return foldRuns(
      b, reduction, begin, end, starts,
      [&](ArrayRef<Value> outer, Value lower, Value upper, ValueRange carried) {
        return b.loop(lower, upper, 1, carried, [&](Value i, ValueRange acc) {
          SmallVector<Value> at(outer);
          if (!reduction.empty())
            at.push_back(i);
          return applyBody(at, acc);
        });
      });
}

/// (F1), (F2) Returns the accumulators of a fold of few elements, as unrolled
/// code in which the index of each element is a constant.
ColumnFold::Accumulators ColumnFold::foldUnrolled() {
  SmallVector<Value> lanes(std::min(fold.lanes, fold.n));
  int64_t taken = 0;
  for (int64_t t = 0; t < fold.n; ++t) {
    int64_t lane = t % fold.run % fold.lanes;
    SmallVector<Value> at;
    int64_t rest = t;
    for (const CollapsedDim &loop : llvm::reverse(reduction)) {
      at.insert(at.begin(), b.index(rest % loop.size));
      rest /= loop.size;
    }
    Value acc = lanes[lane] ? lanes[lane] : fold.getStart(b, width);
    taken += !lanes[lane];
    lanes[lane] = applyBody(at, acc)[0];
  }
  lanes.resize(fold.lanes);
  for (int64_t half = fold.lanes / 2; half; half /= 2)
    for (int64_t lane = 0; lane < half; ++lane) {
      Value &lower = lanes[lane], upper = lanes[lane + half];
      if (lower && upper)
        lower = fold.combine(b, lower, upper);
      else if (upper)
        lower = upper;
    }
  Value result = lanes[0];
  // (F2) counts absent lanes as +0, so a sum with absent lanes is never -0.
  // This code omits these lanes; if the result is then -0 (possible only for an
  // fma step), adding +0 corrects it.
  if (taken < fold.lanes && isa<math::FmaOp>(fold.step))
    result = fold.combine(b, result, fold.getStart(b, width));
  return {result};
}

ColumnFold::Accumulators ColumnFold::foldElements() {
  if (unrolled)
    return foldUnrolled();
  Accumulators starts;
  if (!fold.step) { // (F6)
    for (int64_t v = 0; v < vectorCount; ++v)
      for (unsigned i = 0; i < fold.outputs.size(); ++i)
        starts.push_back(loadOutput(i, v));
    return foldRange(b.index(0), b.index(fold.n), starts);
  }
  starts.assign(vectorCount, fold.getStart(b, width));
  if (fold.n <= fold.chunk)
    return foldRange(b.index(0), b.index(fold.n), starts);
  // (F3) sequential.
  Accumulators totals = foldRange(b.index(0), b.index(fold.chunk), starts);
  return b.loop(b.index(fold.chunk), b.index(fold.n), fold.chunk, totals,
                [&](Value start, ValueRange acc) {
                  Value end = b.min(b.add(start, fold.chunk), b.index(fold.n));
                  Accumulators next = foldRange(start, end, starts);
                  for (auto [value, total] : llvm::zip_equal(next, acc))
                    value = fold.combine(b, total, value);
                  return next;
                });
}

Value ColumnFold::loadOutput(unsigned i, int64_t v) {
  if (Value init = fold.getConstantInit(b, i, width))
    return init;
  const Access &access = fold.outputs[i];
  unsigned position = fold.inputs.size() + i;
  int64_t stride = parallel.back().coefficients[position];
  Value offset =
      b.add(bases[position], b.mul(b.add(innerStart, v * width), stride));
  Value value =
      b.loadVector(access.buffer, access.element, offset, stride, width, mask);
  if (isa<FloatType>(access.element))
    value = b.convertFloat(value, fold.getAccumulatorType(i)); // (F7)
  return value;
}

void ColumnFold::storeOutput(unsigned i, int64_t v, Value value) {
  const Access &access = fold.outputs[i];
  unsigned position = fold.inputs.size() + i;
  int64_t stride = parallel.back().coefficients[position];
  Value offset =
      b.add(bases[position], b.mul(b.add(innerStart, v * width), stride));
  value = b.canonicalizeNaN(value);
  if (isa<FloatType>(access.element))
    value = b.convertFloat(value, access.element); // (F7)
  b.storeVector(value, access.buffer, offset, stride, mask);
}

void ColumnFold::emitVectors(Value inner, int64_t count, LaneMask lanesMask) {
  innerStart = inner;
  vectorCount = count;
  mask = lanesMask;
  Accumulators results = foldElements();
  unsigned outputs = fold.outputs.size();
  for (int64_t v = 0; v < count; ++v)
    for (unsigned i = 0; i < outputs; ++i) {
      Value result = results[v * outputs + i];
      if (fold.step)
        result = fold.combine(b, loadOutput(i, v), result);
      storeOutput(i, v, result);
    }
}

void ColumnFold::setOuter(ArrayRef<Value> at) {
  coordinates.assign(fold.sizes.size(), b.index(0));
  ArrayRef<CollapsedDim> outer = ArrayRef(parallel).drop_back();
  for (auto [loop, value] : llvm::zip_equal(outer, at))
    if (loop.dims.size() == 1)
      coordinates[loop.dims[0]] = value;
  bases.clear();
  unsigned i = 0;
  for (const SmallVector<Access> &accesses : {fold.inputs, fold.outputs})
    for (const Access &access : accesses) {
      bases.push_back(b.add(getLoopOffset(b, outer, at, i), access.constant));
      ++i;
    }
}

void ColumnFold::expandPanels() {
  int64_t size = parallel.back().size, panel = vectors * width;
  SmallVector<int64_t> items = getSizes(parallel);
  items.back() = llvm::divideCeil(size, panel);
  b.forEachItem([&](Value item) {
    SmallVector<Value> at = b.delinearize(item, items);
    Value start = b.mul(at.pop_back_val(), panel);
    setOuter(at);
    if (size % panel == 0) {
      emitVectors(start, vectors, {});
      return;
    }
    auto emitRest = [&] {
      Value vectorEnd = b.index(size / width * width);
      if (size >= width && vectors > 1)
        b.loop(start, vectorEnd, width,
               [&](Value inner) { emitVectors(inner, 1, {}); });
      if (size % width)
        emitVectors(vectorEnd, 1, b.getMask(b.index(size % width), width));
    };
    if (size < panel) {
      emitRest();
      return;
    }
    b.when(b.less(b.index(size), b.add(start, panel)), emitRest,
           [&] { emitVectors(start, vectors, {}); });
  });
  b.setWork(getProduct(items),
            kFoldGrainElements / (fold.n * std::min(panel, size)));
}

void ColumnFold::forEachVector(function_ref<void()> body) {
  int64_t size = parallel[0].size, rest = size % width;
  Value vectorEnd = b.index(size - rest);
  vectorCount = 1;
  b.loop(firstColumn, b.min(endColumn, vectorEnd), width, [&](Value at) {
    innerStart = at;
    body();
  });
  if (rest == 0)
    return;
  b.when(b.less(vectorEnd, endColumn), [&] {
    innerStart = vectorEnd;
    mask = b.getMask(b.index(rest), width);
    body();
    mask = {};
  });
}

Value ColumnFold::loadSums(Value buffer) {
  return b.loadVector(buffer, fold.getAccumulatorType(),
                      b.sub(innerStart, firstColumn), 1, width);
}

void ColumnFold::storeSums(Value sums, Value buffer) {
  b.storeVector(sums, buffer, b.sub(innerStart, firstColumn), 1);
}

void ColumnFold::fetchRows(Value row, int64_t count) {
  Block *block = fold.op.getBody();
  for (auto [i, access] : llvm::enumerate(fold.inputs)) {
    int64_t stride = reduction[0].coefficients[i];
    // Skips inputs for which a vector covers less than half a cache line: each
    // line would be prefetched several times.
    if (block->getArgument(i).use_empty() || !access.isMemory() || !stride ||
        !parallel[0].coefficients[i] ||
        width * 2 < b.getLineElements(access.element))
      continue;
    for (int64_t next = 0; next < count; ++next)
      b.prefetch(
          access.buffer,
          b.add(b.add(bases[i], innerStart), b.mul(b.add(row, next), stride)),
          /*isWrite=*/false);
  }
}

void ColumnFold::foldRows(Value buffer, Value begin, Value end) {
  forEachVector([&] { storeSums(fold.getStart(b, width), buffer); });
  auto foldInto = [&](Value row, int64_t rows) {
    forEachVector([&] {
      Value sums = loadSums(buffer);
      if (rows > 1 && !mask)
        fetchRows(b.add(row, rows), rows);
      for (int64_t i = 0; i < rows; ++i)
        sums = applyBody({b.add(row, i)}, sums)[0];
      storeSums(sums, buffer);
    });
  };
  Value blocksEnd = b.sub(end, b.rem(b.sub(end, begin), kRowsAtOnce));
  b.loop(begin, blocksEnd, kRowsAtOnce,
         [&](Value row) { foldInto(row, kRowsAtOnce); });
  b.loop(blocksEnd, end, 1, [&](Value row) { foldInto(row, 1); });
}

void ColumnFold::expandByRows() {
  int64_t size = parallel[0].size, panel = vectors * width;
  int64_t together = kRowElements / panel;
  b.setWork(llvm::divideCeil(size, panel),
            kFoldGrainElements / (fold.n * panel));
  Type type = fold.getAccumulatorType();
  Value totals = b.getScratch(type, kRowElements);
  Value sums = fold.n > fold.chunk ? b.getScratch(type, kRowElements) : Value();
  setOuter({});
  Value n = b.index(fold.n), itemsEnd = b.getEnd();
  b.loop(b.getBegin(), itemsEnd, together, [&](Value item) {
    Value next = b.min(b.add(item, together), itemsEnd);
    firstColumn = b.mul(item, panel);
    endColumn = b.min(b.mul(next, panel), b.index(size));
    foldRows(totals, b.index(0), b.index(fold.chunk));
    if (sums) // (F3) sequential.
      b.loop(b.index(fold.chunk), n, fold.chunk, [&](Value row) {
        foldRows(sums, row, b.min(b.add(row, fold.chunk), n));
        forEachVector([&] {
          storeSums(fold.combine(b, loadSums(totals), loadSums(sums)), totals);
        });
      });
    forEachVector([&] {
      storeOutput(0, 0, fold.combine(b, loadOutput(0, 0), loadSums(totals)));
    });
  });
}

void ColumnFold::expand() {
  if (byRows)
    expandByRows();
  else
    expandPanels();
}

LogicalResult repro::cpu::expandColumnFold(HostBuilder &b, FoldOp op) {
  ColumnFold kernel(b, op);
  if (failed(kernel.match()))
    return failure();
  kernel.expand();
  return success();
}
