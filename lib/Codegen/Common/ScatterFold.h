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

/// repro.scatter as slices ("rows") of the destination that updates write. The
/// updates of a row are chained in ascending position by `next`.
class ScatterFold {
public:
  ScatterFold(KernelBuilder &b, ScatterOp op);

  /// The row that update `p` writes; `isValid` (i1) is whether there is one.
  Value getRow(Value p, Value &isValid);
  /// Where the row's slice begins in the destination.
  Value getBase(Value row);
  /// (D1) folds the chain that begins at update `first` into the columns from
  /// `column` of the last loop of `slice` on, `lanes` = 0 for one column.
  void foldColumns(Value first, Value originalBase, Value updateBase,
                   Value column, int64_t vectors, int64_t lanes, LaneMask mask);

  KernelBuilder &b;
  ScatterOp op;
  Combine combine;
  int64_t updates, depth, rows;
  SmallVector<int64_t> rowSizes;
  Access original, update, indices;
  Type accumulator; ///< (F7)
  /// Loops over the elements of a row, with the steps of original and update.
  SmallVector<CollapsedDim> slice;
  /// The successor of each update in its chain, -1 for none.
  Value next;
};

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_SCATTERFOLD_H
