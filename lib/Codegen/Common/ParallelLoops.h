//===- ParallelLoops.h - Merge parallel dimensions into loops ---*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_PARALLELLOOPS_H
#define REPRO_CODEGEN_COMMON_PARALLELLOOPS_H

#include "Codegen/Common/KernelBuilder.h"

namespace mlir::repro::kernels {

/// Neighbouring dimensions of an iteration space, traversed by one loop.
struct CollapsedDim {
  SmallVector<unsigned> dims;
  int64_t size;
  /// Step of each access per iteration.
  SmallVector<int64_t> coefficients;
};

/// Merges the dimensions `dims` (outermost first, extents `sizes`) that are
/// contiguous in every access and not in `fixed`; drops extents of 1.
SmallVector<CollapsedDim> collapseDims(ArrayRef<unsigned> dims,
                                       ArrayRef<int64_t> sizes,
                                       ArrayRef<const Access *> accesses,
                                       const llvm::SmallBitVector &fixed);

/// Iterates over the elements [begin, end) of the row-major space of `loops` in
/// parts along the last loop. `body` receives the coordinates along the outer
/// loops and the range along the last one, which starts with element `first`.
void forEachRun(KernelBuilder &b, ArrayRef<CollapsedDim> loops, Value begin,
                Value end,
                function_ref<void(ArrayRef<Value> outer, Value lower,
                                  Value upper, Value first)>
                    body);

/// Like forEachRun, with values carried between parts.
SmallVector<Value>
foldRuns(KernelBuilder &b, ArrayRef<CollapsedDim> loops, Value begin, Value end,
         ValueRange inits,
         function_ref<SmallVector<Value>(ArrayRef<Value> outer, Value lower,
                                         Value upper, ValueRange carried)>
             body);

/// Returns the sum of the steps of access `access` at `coordinates`.
Value getLoopOffset(KernelBuilder &b, ArrayRef<CollapsedDim> loops,
                    ArrayRef<Value> coordinates, unsigned access);

/// Returns the extents of the loops.
SmallVector<int64_t> getSizes(ArrayRef<CollapsedDim> loops);

/// Returns the dimensions that `linalg.index` or `repro.index` of `body` reads.
llvm::SmallBitVector getIndexedDims(Block &body, unsigned numDims);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_PARALLELLOOPS_H
