//===- FoldSupport.h - Shared parts of fold expansions ----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_FOLDSUPPORT_H
#define REPRO_CODEGEN_COMMON_FOLDSUPPORT_H

#include "Codegen/Common/KernelBuilder.h"
#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro::kernels {

/// The minimum number of elements to fold for which another CPU thread is
/// worthwhile.
constexpr int64_t kFoldGrainElements = 16384;

/// Returns the extents of the loops of an operation with static shapes.
SmallVector<int64_t> getLoopSizes(IndexingMapOpInterface op);

/// Returns the product of the extents.
inline int64_t getProduct(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

/// The parameters of a fold, named as in numerics.md, and the accesses of its
/// operands.
struct FoldInfo {
  /// `outputs`, if given, replace the outputs of `op` as the destination of the
  /// results.
  FoldInfo(KernelBuilder &b, FoldOp op, ArrayRef<Access> outputs = {});

  FoldOp op;
  Operation *step; ///< null for the order of (F6)
  SmallVector<int64_t> sizes;
  SmallVector<unsigned> parallel, reduction;
  SmallVector<int64_t> parallelSizes, reductionSizes;
  int64_t results; ///< the number of points of the parallel dimensions
  int64_t n;       ///< the number of reduction elements per result
  SmallVector<Access> inputs, outputs;
  /// (F1) The order for n elements: chunk and run are at most n, but lanes may
  /// exceed n. If any order is allowed, lanes = 1 and there is one chunk.
  int64_t chunk, lanes, run;
  bool refold;
  bool anyOrder;

  /// (F7) Returns the type in which output `i` is accumulated: f32 if the body
  /// accumulates in a storage type.
  Type getAccumulatorType(unsigned i = 0);
  /// (F2), (F3) Applies the fold's step to two accumulators, which are scalars
  /// or vectors.
  Value combine(KernelBuilder &b, Value lhs, Value rhs);
  /// (F4) Returns the start value as a vector, or as a scalar if `lanes` is 0.
  Value getStart(KernelBuilder &b, int64_t lanes);
  /// Returns the initial value of output `i` in the accumulator's type, as a
  /// vector, or as a scalar if `lanes` is 0. Returns null if the initial value
  /// is not a constant but the contents of the output's buffer.
  Value getConstantInit(KernelBuilder &b, unsigned i, int64_t lanes);
};

/// Returns the start value (F4) of a fold with `step`, as a constant of `type`.
TypedAttr getStartValue(Operation *step, Type type);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_FOLDSUPPORT_H
