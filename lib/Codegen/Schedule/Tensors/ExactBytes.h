//===- ExactBytes.h - Exact contractions of signed bytes --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// (K4) The integers of a factor as signed bytes (digits), for machines with
// arrays of multipliers of bytes.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_EXACTBYTES_H
#define REPRO_CODEGEN_SCHEDULE_TENSORS_EXACTBYTES_H

#include "dialects/Repro/IR/Repro.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {

/// One of the two factors of an exact contraction.
struct ExactFactor {
  unsigned input;
  Value tensor;
  AffineMap map;
  /// `magnitude` is an f32 tensor with the largest magnitude among the elements
  /// that a result uses. This tensor has one dimension for each parallel
  /// dimension of the fold on which the factor depends; `magnitudeMap` is its
  /// indexing map.
  Value magnitude;
  AffineMap magnitudeMap;
  SmallVector<unsigned> magnitudeDims;

  /// Returns the map from the dimensions of `tensor` to those of `magnitude`.
  /// An element must have the same magnitude in all windows.
  AffineMap getRowMap() const;
};

/// Returns a tensor whose elements are all `value`.
Value fillTensor(ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape,
                 TypedAttr value);

/// Returns the least e with magnitude < 2^e as an i64, or 0 for 0. `magnitude`
/// is a finite f32 that is not negative; converted to f64, it is a normal
/// number or 0.
Value getExactExponent(ImplicitLocOpBuilder &b, Value magnitude);

/// Returns the results of an exact contraction without an empty loop. A fold
/// adds the weighted products of bytes in i64, which gives T of (K4).
Value contractBytes(ImplicitLocOpBuilder &b, FoldOp fold, const ExactFactor &x,
                    const ExactFactor &y, int64_t digits);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_EXACTBYTES_H
