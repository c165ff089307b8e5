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

/// One loop over one or more adjacent dimensions of an iteration space.
struct CollapsedDim {
  SmallVector<unsigned> dims;
  int64_t size;
  /// For each access, the distance in elements from one iteration to the next.
  SmallVector<int64_t> coefficients;
};

/// Returns loops over `dims` (outermost first, with extents `sizes`). Merges
/// dimensions that are contiguous in every access, except those in `fixed`.
/// Drops dimensions of extent 1.
SmallVector<CollapsedDim> collapseDims(ArrayRef<unsigned> dims,
                                       ArrayRef<int64_t> sizes,
                                       ArrayRef<const Access *> accesses,
                                       const llvm::SmallBitVector &fixed);

/// Calls `body` for elements [begin, end) of the row-major space of `loops`,
/// one run along the last loop at a time. `body` receives the outer
/// coordinates, the range [lower, upper) of the last loop, and the number of
/// the element at `lower`.
void forEachRun(KernelBuilder &b, ArrayRef<CollapsedDim> loops, Value begin,
                Value end,
                function_ref<void(ArrayRef<Value> outer, Value lower,
                                  Value upper, Value first)>
                    body);

/// Like forEachRun, but `body` also receives the values that the previous call
/// returned, `inits` at first. Returns the last call's values.
SmallVector<Value>
foldRuns(KernelBuilder &b, ArrayRef<CollapsedDim> loops, Value begin, Value end,
         ValueRange inits,
         function_ref<SmallVector<Value>(ArrayRef<Value> outer, Value lower,
                                         Value upper, ValueRange carried)>
             body);

/// Returns the offset of access number `access` at `coordinates`, which has one
/// coordinate for each loop.
Value getLoopOffset(KernelBuilder &b, ArrayRef<CollapsedDim> loops,
                    ArrayRef<Value> coordinates, unsigned access);

/// Returns the extents of `loops`.
SmallVector<int64_t> getSizes(ArrayRef<CollapsedDim> loops);

/// Returns the dimensions whose index `body` reads (linalg.index, repro.index).
llvm::SmallBitVector getIndexedDims(Block &body, unsigned numDims);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_PARALLELLOOPS_H
