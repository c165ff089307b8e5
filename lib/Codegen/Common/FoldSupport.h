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

/// The minimum number of elements to fold for which waking a CPU thread pays.
constexpr int64_t kFoldGrainElements = 16384;

/// Returns the extents of the iteration space of an operation with static
/// shapes.
SmallVector<int64_t> getLoopSizes(IndexingMapOpInterface op);

/// Returns the product of the extents.
inline int64_t getProduct(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

/// The parameters of a fold as numerics.md defines them, and the accesses of
/// the operands.
struct FoldInfo {
  /// `outputs`, if present, replace the op's outputs as destination of the
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
  /// (F1) The order limited to n elements: chunk and run are at most n, lanes
  /// may exceed n. AnyOrder counts as lanes = 1 in one chunk.
  int64_t chunk, lanes, run;
  bool refold;
  bool anyOrder;

  /// (F7) Returns the type in which output `i` accumulates. If the body
  /// accumulates in a storage type, its values are kept in f32.
  Type getAccumulatorType(unsigned i = 0);
  /// (F2), (F3) Combines two accumulators, scalars or vectors, with the fold's
  /// step.
  Value combine(KernelBuilder &b, Value lhs, Value rhs);
  /// (F4) Returns the start value as a scalar (lanes = 0) or as a vector.
  Value getStart(KernelBuilder &b, int64_t lanes);
  /// Returns the constant initial value of output `i` in the accumulator's
  /// type, as a scalar (lanes = 0) or as a vector; null if the initial value is
  /// in the output's buffer.
  Value getConstantInit(KernelBuilder &b, unsigned i, int64_t lanes);
};

/// Returns the start value of (F4) for folds that combine by `step`.
TypedAttr getStartValue(Operation *step, Type type);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_FOLDSUPPORT_H
