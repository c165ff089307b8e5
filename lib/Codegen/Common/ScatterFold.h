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

/// Views repro.scatter as folds of slices ("rows") of the destination. `next`
/// chains the updates of a row by ascending position.
class ScatterFold {
public:
  ScatterFold(KernelBuilder &b, ScatterOp op);

  /// Returns the row that update `p` writes and sets `isValid` (i1) to whether
  /// the row exists.
  Value getRow(Value p, Value &isValid);
  /// Returns the position of the row's slice in the destination.
  Value getBase(Value row);
  /// (D1) Folds the chain that starts at update `first` into the columns from
  /// `column` of the last loop of `slice`; `lanes` = 0 means a single column.
  void foldColumns(Value first, Value originalBase, Value updateBase,
                   Value column, int64_t vectors, int64_t lanes, LaneMask mask);

  KernelBuilder &b;
  ScatterOp op;
  Combine combine;
  int64_t updates, depth, rows;
  SmallVector<int64_t> rowSizes;
  Access original, update, indices;
  Type accumulator; ///< (F7)
  /// Loops over the elements of a row, with the steps of `original` and
  /// `update`.
  SmallVector<CollapsedDim> slice;
  /// The successor of each update in its chain; -1 if there is none.
  Value next;
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_SCATTERFOLD_H
