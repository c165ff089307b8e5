//===- FoldSupport.h - What all expansions of folds share -------*- C++ -*-===//
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

/// Elements whose folding is worth a thread of the CPU, which has to be woken.
constexpr int64_t kFoldGrainElements = 16384;

/// Extents of the iteration space of an operation with static shapes.
SmallVector<int64_t> getLoopSizes(IndexingMapOpInterface op);

inline int64_t getProduct(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

/// A fold as the numerics see it, with its operands' accesses.
struct FoldInfo {
  /// `outputs`: where results go instead of the op's.
  FoldInfo(KernelBuilder &b, FoldOp op, ArrayRef<Access> outputs = {});

  FoldOp op;
  Operation *step; ///< null: (F6)
  SmallVector<int64_t> sizes;
  SmallVector<unsigned> parallel, reduction;
  SmallVector<int64_t> parallelSizes, reductionSizes;
  int64_t results; ///< number of points of the parallel dimensions
  int64_t n;       ///< number of reduction elements of each result
  SmallVector<Access> inputs, outputs;
  /// (F1) as they act on n elements: chunk and run are at most n, lanes may
  /// exceed it. Any order counts as lanes = 1 in one chunk.
  int64_t chunk, lanes, run;
  bool refold;
  bool anyOrder;

  /// (F7) the type in which output `i` accumulates; where the body does so in
  /// a storage type, its values are held in f32.
  Type getAccumulatorType(unsigned i = 0);
  /// (F2), (F3) op of two accumulators, scalars or vectors.
  Value combine(KernelBuilder &b, Value lhs, Value rhs);
  /// (F4) start value as a scalar (lanes = 0) or vector.
  Value getStart(KernelBuilder &b, int64_t lanes);
  /// The initial value of output `i` where it is a constant, as
  /// a scalar (lanes = 0) or vector of the accumulator's type; null where it is
  /// in the output's buffer.
  Value getConstantInit(KernelBuilder &b, unsigned i, int64_t lanes);
};

/// The start value of (F4) for folding by `step`.
TypedAttr getStartValue(Operation *step, Type type);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_FOLDSUPPORT_H
