//===- ParallelLoops.cpp - Merge parallel dimensions into loops -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/ParallelLoops.h"

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

SmallVector<CollapsedDim>
repro::kernels::collapseDims(ArrayRef<unsigned> dims, ArrayRef<int64_t> sizes,
                             ArrayRef<const Access *> accesses,
                             const llvm::SmallBitVector &fixed) {
  llvm::SmallBitVector alone = fixed;
  for (const Access *access : accesses)
    if (!access->linear)
      for (unsigned dim : dims)
        if (access->expression.isFunctionOfDim(dim))
          alone.set(dim);
  SmallVector<CollapsedDim> loops;
  for (unsigned dim : dims) {
    if (sizes[dim] == 1)
      continue;
    CollapsedDim next{{dim}, sizes[dim], {}};
    for (const Access *access : accesses)
      next.coefficients.push_back(access->linear ? access->coefficients[dim]
                                                 : 0);
    bool follows =
        !loops.empty() && !alone[dim] &&
        llvm::none_of(loops.back().dims, [&](unsigned d) { return alone[d]; });
    if (follows)
      for (auto [outer, inner] :
           llvm::zip_equal(loops.back().coefficients, next.coefficients))
        follows &= outer == inner * next.size;
    if (!follows) {
      loops.push_back(next);
      continue;
    }
    loops.back().dims.push_back(dim);
    loops.back().size *= next.size;
    loops.back().coefficients = next.coefficients;
  }
  return loops;
}

llvm::SmallBitVector repro::kernels::getIndexedDims(Block &body,
                                                    unsigned numDims) {
  llvm::SmallBitVector dims(numDims);
  for (Operation &op : body) {
    // An index that only prefetches use need not be exact, so its dimension may
    // still be merged with others.
    if (llvm::all_of(op.getUsers(), llvm::IsaPred<memref::PrefetchOp>))
      continue;
    if (auto index = dyn_cast<linalg::IndexOp>(op))
      dims.set(index.getDim());
    else if (auto index = dyn_cast<repro::IndexOp>(op))
      dims.set(index.getDim());
  }
  return dims;
}

SmallVector<int64_t> repro::kernels::getSizes(ArrayRef<CollapsedDim> loops) {
  SmallVector<int64_t> sizes;
  for (const CollapsedDim &loop : loops)
    sizes.push_back(loop.size);
  return sizes;
}

Value repro::kernels::getLoopOffset(KernelBuilder &b,
                                    ArrayRef<CollapsedDim> loops,
                                    ArrayRef<Value> coordinates,
                                    unsigned access) {
  Value offset = b.index(0);
  for (auto [loop, at] : llvm::zip_equal(loops, coordinates))
    if (loop.coefficients[access])
      offset = b.add(offset, b.mul(at, loop.coefficients[access]));
  return offset;
}

void repro::kernels::forEachRun(
    KernelBuilder &b, ArrayRef<CollapsedDim> loops, Value begin, Value end,
    function_ref<void(ArrayRef<Value>, Value, Value, Value)> body) {
  if (loops.size() <= 1) {
    body({}, begin, end, begin);
    return;
  }
  int64_t run = loops.back().size;
  SmallVector<int64_t> outer = getSizes(loops.drop_back());
  Value last = b.div(b.add(end, run - 1), run);
  b.loop(b.div(begin, run), last, 1, [&](Value row) {
    Value start = b.mul(row, run);
    Value lower = b.max(b.sub(begin, start), b.index(0));
    Value upper = b.min(b.sub(end, start), b.index(run));
    body(b.delinearize(row, outer), lower, upper, b.add(start, lower));
  });
}

SmallVector<Value> repro::kernels::foldRuns(
    KernelBuilder &b, ArrayRef<CollapsedDim> loops, Value begin, Value end,
    ValueRange inits,
    function_ref<SmallVector<Value>(ArrayRef<Value>, Value, Value, ValueRange)>
        body) {
  if (loops.size() <= 1)
    return body({}, begin, end, inits);
  int64_t run = loops.back().size;
  SmallVector<int64_t> outer = getSizes(loops.drop_back());
  Value last = b.div(b.add(end, run - 1), run);
  return b.loop(b.div(begin, run), last, 1, inits,
                [&](Value row, ValueRange carried) {
                  Value start = b.mul(row, run);
                  Value lower = b.max(b.sub(begin, start), b.index(0));
                  Value upper = b.min(b.sub(end, start), b.index(run));
                  return body(b.delinearize(row, outer), lower, upper, carried);
                });
}
