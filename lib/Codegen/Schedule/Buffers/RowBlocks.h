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

/// How an op touches a buffer, by an operand or by a load in its body.
struct RowAccess {
  OpOperand *use;
  Value root;
  bool writes;
  SmallVector<int64_t> strides;
  int64_t offset;
  /// For each dimension of the memref the dimension among those of the rows
  /// that it follows, or -1.
  SmallVector<int64_t> rowDims;
  /// Elements from one row to the next; 0: not by rows.
  int64_t rowStride = 0;

  MemRefType getType() const { return cast<MemRefType>(use->get().getType()); }
};

/// A structured op as one on rows, the points of its first dimensions.
struct RowOp {
  Operation *op;
  /// Extents of the dimensions of the rows.
  SmallVector<int64_t> sizes;
  /// Of its operands, then of the loads in its body as one walks it.
  SmallVector<RowAccess> accesses;
};

/// Extents of the iteration space of a structured op.
SmallVector<int64_t> getSizes(Operation *op);

/// The extents of a block of `block` neighbouring rows among `sizes`; empty if
/// they are no box.
SmallVector<int64_t> getTile(ArrayRef<int64_t> sizes, int64_t block);

/// Replaces the ops, neighbours of one block that work on the same `rows`, by
/// an `scf.forall` over blocks of `block` rows.
void writeRowBlocks(ArrayRef<RowOp> run, int64_t rows, int64_t block);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_ROWBLOCKS_H
