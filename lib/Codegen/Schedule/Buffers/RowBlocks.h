//===- RowBlocks.h - A loop over blocks of rows -----------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_ROWBLOCKS_H
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_ROWBLOCKS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace mlir::repro {

/// An access of an op to a buffer, by an operand or by a load in its body.
struct RowAccess {
  OpOperand *use;
  Value root;
  bool writes;
  SmallVector<int64_t> strides;
  int64_t offset;
  /// For each dimension of the memref, the dimension of the rows that indexes
  /// it, or -1.
  SmallVector<int64_t> rowDims;
  /// The distance between rows in elements; 0 if `findRowStride` finds none.
  int64_t rowStride = 0;

  MemRefType getType() const { return cast<MemRefType>(use->get().getType()); }
};

/// A structured op whose first dimensions are viewed as rows.
struct RowOp {
  Operation *op;
  /// Extents of the row dimensions.
  SmallVector<int64_t> sizes;
  /// Accesses of the operands, then of loads in the body in walk order.
  SmallVector<RowAccess> accesses;
};

/// Returns the extents of the iteration space of a structured op.
SmallVector<int64_t> getSizes(Operation *op);

/// Returns the extents of `block` neighbouring rows as a box in `sizes`; empty
/// if these rows do not form a box.
SmallVector<int64_t> getTile(ArrayRef<int64_t> sizes, int64_t block);

/// Replaces neighbouring ops of one MLIR block, each viewed on `rows` rows, by
/// an `scf.forall` over blocks of `block` rows.
void writeRowBlocks(ArrayRef<RowOp> run, int64_t rows, int64_t block);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_ROWBLOCKS_H
