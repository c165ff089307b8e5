//===- FuseRows.h - Operations on the same rows in one loop -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_FUSEROWS_H
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_FUSEROWS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::repro {

/// Neighbouring structured ops on buffers that work on the same rows, with a
/// fold of each row or a batched product among them, become one `scf.forall`
/// over blocks of rows: what one op writes for the next is in the cache then.
/// Buffers that nobody else uses shrink to a block, a `memref.alloc` in the
/// loop.
void fuseRows(func::FuncOp main);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_FUSEROWS_H
