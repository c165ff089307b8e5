//===- ParallelLoops.h - Parallel dimensions as few loops -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_PARALLELLOOPS_H
#define REPRO_CODEGEN_COMMON_PARALLELLOOPS_H

#include "Codegen/Common/KernelBuilder.h"

namespace mlir::repro::kernels {

/// Neighbouring dimensions of an iteration space run through as one loop.
struct CollapsedDim {
  SmallVector<unsigned> dims;
  int64_t size;
  /// Step of each access per iteration.
  SmallVector<int64_t> coefficients;
};

/// Merges those of `dims` (outermost first, extents `sizes`) that follow each
/// other in every access, none of which is in `fixed`; drops extents of 1.
SmallVector<CollapsedDim> collapseDims(ArrayRef<unsigned> dims,
                                       ArrayRef<int64_t> sizes,
                                       ArrayRef<const Access *> accesses,
                                       const llvm::SmallBitVector &fixed);

/// Runs through the elements [begin, end) of the row-major space of `loops`,
/// part by part: `body` gets the coordinates along all loops but the last and
/// the range along the last, which begins at element `first`.
void forEachRun(KernelBuilder &b, ArrayRef<CollapsedDim> loops, Value begin,
                Value end,
                function_ref<void(ArrayRef<Value> outer, Value lower,
                                  Value upper, Value first)>
                    body);

/// The same with values that are carried from part to part.
SmallVector<Value>
foldRuns(KernelBuilder &b, ArrayRef<CollapsedDim> loops, Value begin, Value end,
         ValueRange inits,
         function_ref<SmallVector<Value>(ArrayRef<Value> outer, Value lower,
                                         Value upper, ValueRange carried)>
             body);

/// Sum of the loops' steps of access `access` at `coordinates`.
Value getLoopOffset(KernelBuilder &b, ArrayRef<CollapsedDim> loops,
                    ArrayRef<Value> coordinates, unsigned access);

/// Extents of the loops.
SmallVector<int64_t> getSizes(ArrayRef<CollapsedDim> loops);

/// The dimensions that `linalg.index` or `repro.index` of `body` name.
llvm::SmallBitVector getIndexedDims(Block &body, unsigned numDims);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_PARALLELLOOPS_H
