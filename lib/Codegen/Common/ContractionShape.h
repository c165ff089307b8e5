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

/// The properties of a contraction that decide its tiling.
struct ContractionShape {
  struct Factor {
    /// Loops as in kernels::Factor. Their accesses are the factor's inputs. In
    /// `loops`, the access of the output follows.
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
  /// The number of products that a matrix unit's accumulator adds at once (M4);
  /// 0 if the contraction has no such accumulator.
  int64_t block = 0;
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_CONTRACTIONSHAPE_H
