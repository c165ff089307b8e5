//===- ScatterFold.h - The fold of one destination of a scatter -*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_SCATTERFOLD_H
#define REPRO_CODEGEN_COMMON_SCATTERFOLD_H

#include "Codegen/Common/Combine.h"
#include "Codegen/Common/ParallelLoops.h"

namespace mlir::repro::kernels {

/// A repro.scatter as folds. A row is the slice of the destination that an
/// update writes. In `next`, the updates of each row form a linked list in
/// ascending position.
class ScatterFold {
public:
  ScatterFold(KernelBuilder &b, ScatterOp op);

  /// Returns the row that update `p` writes. Sets `isValid` to an i1: whether
  /// the indices of the update are in range.
  Value getRow(Value p, Value &isValid);
  /// Returns the offset of the first element of `row` in the destination.
  Value getBase(Value row);
  /// (D1) Folds the list of updates that begins with `first`, for `vectors`
  /// vectors of columns of a row. The first vector begins at `column`. If
  /// `lanes` is 0, each vector is a single column.
  void foldColumns(Value first, Value originalBase, Value updateBase,
                   Value column, int64_t vectors, int64_t lanes, LaneMask mask);

  KernelBuilder &b;
  ScatterOp op;
  Combine combine;
  int64_t updates, depth, rows;
  SmallVector<int64_t> rowSizes;
  Access original, update, indices;
  Type accumulator; ///< (F7)
  /// Loops over the elements of a row. Their accesses are `original` and
  /// `update`.
  SmallVector<CollapsedDim> slice;
  /// For each update, the next update of its row; -1 if there is none.
  Value next;
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_SCATTERFOLD_H
