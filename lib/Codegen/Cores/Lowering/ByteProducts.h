//===- ByteProducts.h - Folds that add products of bytes --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_LOWERING_BYTEPRODUCTS_H
#define REPRO_CODEGEN_CORES_LOWERING_BYTEPRODUCTS_H

#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro::cores {

/// A fold of integers whose body adds products of signed bytes, each shifted to
/// the left: those of exact contractions (K4) and products of i8 matrices.
struct ByteProducts {
  /// One product, of two inputs of the fold.
  struct Term {
    unsigned x, y;
    int64_t shift;
  };
  SmallVector<Term> terms;
  /// The largest parallel loop of x alone and of y alone, if there are any, and
  /// the largest reduction loop of both.
  std::optional<unsigned> rowLoop, columnLoop;
  unsigned depthLoop = 0;

  /// std::nullopt if the array of a core cannot compute the fold.
  static std::optional<ByteProducts> get(FoldOp fold);
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_LOWERING_BYTEPRODUCTS_H
