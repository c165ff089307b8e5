//===- LiteralFold.cpp - Reference expansion of folds ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/BodyVectorizer.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/StructuredKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

namespace {
class LiteralFold {
public:
  LiteralFold(KernelBuilder &b, FoldOp op) : b(b), fold(b, op) {}

  void expand();

private:
  /// Returns the accumulators after adding element `t` of the reduction.
  SmallVector<Value> applyBody(Value t, ValueRange accumulators);
  /// (F1), (F2) Returns the fold of the chunk [start, end) of a list. Element t
  /// belongs to lane (t mod run) mod lanes; `next` returns an accumulator after
  /// adding element t.
  Value foldChunk(Value start, Value end, int64_t run,
                  function_ref<Value(Value t, Value accumulator)> next);
  Value foldElements();
  Value loadOutput(unsigned i);
  void storeOutput(unsigned i, Value value);

  KernelBuilder &b;
  FoldInfo fold;
  SmallVector<Value> coordinates;
  Value laneBuffer, chunkBuffer;
};
} // namespace

SmallVector<Value> LiteralFold::applyBody(Value t, ValueRange accumulators) {
  SmallVector<Value> at = b.delinearize(t, fold.reductionSizes);
  for (auto [dim, coordinate] : llvm::zip_equal(fold.reduction, at))
    coordinates[dim] = coordinate;
  BodyVectorizer body(b, /*lanes=*/0);
  body.index = [&](int64_t dim) { return LaneValue{coordinates[dim]}; };
  Block *block = fold.op.getBody();
  for (auto [i, access] : llvm::enumerate(fold.inputs))
    body.map(block->getArgument(i),
             access.isMemory() ? b.load(access.buffer, access.element,
                                        b.getOffset(access, coordinates))
                               : access.scalar);
  for (auto [argument, value] : llvm::zip_equal(
           block->getArguments().drop_front(fold.inputs.size()), accumulators))
    body.map(argument, value);
  SmallVector<Value> results = body.inlineBody(*block);
  for (auto [i, result] : llvm::enumerate(results))
    if (isa<FloatType>(result.getType()))
      result = b.convertFloat(result, fold.getAccumulatorType(i));
  return results;
}

Value LiteralFold::foldChunk(
    Value start, Value end, int64_t run,
    function_ref<Value(Value t, Value accumulator)> next) {
  Value first = fold.getStart(b, 0);
  if (fold.lanes == 1)
    return b.loop(start, end, 1, {first}, [&](Value t, ValueRange acc) {
      return SmallVector<Value>{next(t, acc[0])};
    })[0];
  b.loop(b.index(0), b.index(fold.lanes), 1,
         [&](Value lane) { b.store(first, laneBuffer, lane); });
  b.loop(start, end, 1, [&](Value t) {
    Value lane = b.rem(b.rem(t, run), fold.lanes);
    Value acc = b.load(laneBuffer, fold.getAccumulatorType(), lane);
    b.store(next(t, acc), laneBuffer, lane);
  });
  for (int64_t width = fold.lanes / 2; width; width /= 2)
    b.loop(b.index(0), b.index(width), 1, [&](Value lane) {
      Value lower = b.load(laneBuffer, fold.getAccumulatorType(), lane);
      Value upper =
          b.load(laneBuffer, fold.getAccumulatorType(), b.add(lane, width));
      b.store(fold.combine(b, lower, upper), laneBuffer, lane);
    });
  return b.load(laneBuffer, fold.getAccumulatorType(), b.index(0));
}

Value LiteralFold::foldElements() {
  auto element = [&](Value t, Value acc) { return applyBody(t, acc)[0]; };
  auto chunkEnd = [&](Value start, int64_t n) {
    return b.min(b.add(start, fold.chunk), b.index(n));
  };
  int64_t chunks = llvm::divideCeil(fold.n, fold.chunk);
  if (chunks == 1)
    return foldChunk(b.index(0), b.index(fold.n), fold.run, element);
  Type type = fold.getAccumulatorType();
  if (!fold.refold) { // (F3) sequential
    Value total = foldChunk(b.index(0), b.index(fold.chunk), fold.run, element);
    return b.loop(b.index(fold.chunk), b.index(fold.n), fold.chunk, {total},
                  [&](Value start, ValueRange acc) {
                    Value result = foldChunk(start, chunkEnd(start, fold.n),
                                             fold.run, element);
                    return SmallVector<Value>{fold.combine(b, acc[0], result)};
                  })[0];
  }
  b.loop(b.index(0), b.index(fold.n), fold.chunk, [&](Value start) {
    Value result = foldChunk(start, chunkEnd(start, fold.n), fold.run, element);
    b.store(result, chunkBuffer, b.div(start, fold.chunk));
  });
  // (F3) Refold: each pass folds the list of chunk results and overwrites the
  // front of this list, which it has already read, with a shorter list.
  for (int64_t n = chunks; n > 1; n = llvm::divideCeil(n, fold.chunk))
    b.loop(b.index(0), b.index(n), fold.chunk, [&](Value start) {
      Value result =
          foldChunk(start, chunkEnd(start, n), n, [&](Value t, Value acc) {
            return fold.combine(b, acc, b.load(chunkBuffer, type, t));
          });
      b.store(result, chunkBuffer, b.div(start, fold.chunk));
    });
  return b.load(chunkBuffer, type, b.index(0));
}

Value LiteralFold::loadOutput(unsigned i) {
  if (Value init = fold.getConstantInit(b, i, /*lanes=*/0))
    return init;
  Access &access = fold.outputs[i];
  Value value =
      b.load(access.buffer, access.element, b.getOffset(access, coordinates));
  if (isa<FloatType>(access.element))
    value = b.convertFloat(value, fold.getAccumulatorType(i)); // (F7)
  return value;
}

void LiteralFold::storeOutput(unsigned i, Value value) {
  Access &access = fold.outputs[i];
  if (isa<FloatType>(access.element))
    value = b.convertFloat(b.canonicalizeNaN(value), access.element); // (F7)
  b.store(value, access.buffer, b.getOffset(access, coordinates));
}

void LiteralFold::expand() {
  if (fold.n == 0) { // (F3) the result is init
    b.setWork(0, 1);
    return;
  }
  Type type = fold.getAccumulatorType();
  if (fold.step && fold.lanes > 1)
    laneBuffer = b.getScratch(type, fold.lanes);
  if (fold.step && fold.refold && fold.n > fold.chunk)
    chunkBuffer = b.getScratch(type, llvm::divideCeil(fold.n, fold.chunk));
  b.forEachItem([&](Value item) {
    coordinates.assign(fold.sizes.size(), b.index(0));
    for (auto [dim, at] : llvm::zip_equal(
             fold.parallel, b.delinearize(item, fold.parallelSizes)))
      coordinates[dim] = at;
    if (fold.step) {
      Value total = foldElements();
      storeOutput(0, fold.combine(b, loadOutput(0), total));
      return;
    }
    SmallVector<Value> inits; // (F6)
    for (size_t i = 0; i < fold.outputs.size(); ++i)
      inits.push_back(loadOutput(i));
    SmallVector<Value> results =
        b.loop(b.index(0), b.index(fold.n), 1, inits,
               [&](Value t, ValueRange acc) { return applyBody(t, acc); });
    for (auto [i, value] : llvm::enumerate(results))
      storeOutput(i, value);
  });
  b.setWork(fold.results, kFoldGrainElements / fold.n);
}

void repro::kernels::expandLiteralFold(KernelBuilder &b, FoldOp op) {
  LiteralFold(b, op).expand();
}
