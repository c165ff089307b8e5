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

/// An access of an op to a buffer: by an operand, or by a load in the op's
/// body.
struct RowAccess {
  OpOperand *use;
  Value root;
  bool writes;
  SmallVector<int64_t> strides;
  int64_t offset;
  /// For each dimension of the memref: the row dimension of the op that indexes
  /// it, or -1 if none does.
  SmallVector<int64_t> rowDims;
  /// The distance between rows in elements, or 0 if it is not constant.
  int64_t rowStride = 0;

  MemRefType getType() const { return cast<MemRefType>(use->get().getType()); }
};

/// A structured op whose first dimensions are viewed as rows.
struct RowOp {
  Operation *op;
  /// The extents of the dimensions that are viewed as rows.
  SmallVector<int64_t> sizes;
  /// The accesses by operands, then those by loads in the order of walk().
  SmallVector<RowAccess> accesses;
};

/// Returns the extents of the loops of a structured op.
SmallVector<int64_t> getSizes(Operation *op);

/// Returns the extents of the box that `block` neighbouring rows form in the
/// dimensions `sizes`; empty if they do not form a box.
SmallVector<int64_t> getTile(ArrayRef<int64_t> sizes, int64_t block);

/// Replaces neighbouring ops of one MLIR block, each viewed as `rows` rows, by
/// an `scf.forall` over blocks of `block` rows.
void writeRowBlocks(ArrayRef<RowOp> run, int64_t rows, int64_t block);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_ROWBLOCKS_H
