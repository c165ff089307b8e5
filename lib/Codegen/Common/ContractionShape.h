//===- ContractionShape.h - What tiles depend on ----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_CONTRACTIONSHAPE_H
#define REPRO_CODEGEN_COMMON_CONTRACTIONSHAPE_H

#include "Codegen/Common/ParallelLoops.h"

namespace mlir::repro::kernels {

/// What the choice of tiles sees of a contraction.
struct ContractionShape {
  struct Factor {
    /// As those of a contraction's factor: access i is input i, in `loops` the
    /// last one is the output.
    ArrayRef<CollapsedDim> loops, reduction;
    int64_t size;        ///< of M or N
    bool isPlain;        ///< an element of memory as it is
    unsigned operations; ///< that compute it
    unsigned inputs;
  };
  Factor rows, columns;
  int64_t batchSize;
  int64_t n, chunk; ///< elements of K, and of a chunk
  int64_t elementBytes;
  /// Products that an accumulator of matrix units adds together; 0: none does.
  int64_t block = 0;
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_CONTRACTIONSHAPE_H
