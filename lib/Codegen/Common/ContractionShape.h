//===- ContractionShape.h - Contraction properties for tiling ---*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_CONTRACTIONSHAPE_H
#define REPRO_CODEGEN_COMMON_CONTRACTIONSHAPE_H

#include "Codegen/Common/ParallelLoops.h"

namespace mlir::repro::kernels {

/// The properties of a contraction that the choice of tiles depends on.
struct ContractionShape {
  struct Factor {
    /// As in the contraction's factor: access i is input i; in `loops` the last
    /// access is the output.
    ArrayRef<CollapsedDim> loops, reduction;
    int64_t size;        ///< extent of M or N
    bool isPlain;        ///< each value is an unmodified element of memory
    unsigned operations; ///< number of operations that compute a value
    unsigned inputs;
  };
  Factor rows, columns;
  int64_t batchSize;
  int64_t n, chunk; ///< extents of K and of a chunk
  int64_t elementBytes;
  /// The number of products that an accumulator of matrix units adds at once; 0
  /// if the order has no such accumulator.
  int64_t block = 0;
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_CONTRACTIONSHAPE_H
