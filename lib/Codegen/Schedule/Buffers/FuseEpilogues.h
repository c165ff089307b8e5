//===- FuseEpilogues.h - Results of products used at once -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_FUSEEPILOGUES_H
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_FUSEEPILOGUES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::repro {

/// A contraction and the element-wise op that alone reads its results become
/// one `memref.alloca_scope`: the results, a `memref.alloca` in it, need not
/// reach memory. The op gets the parallel dimensions of the contraction as its
/// loops, whatever shapes it saw the results in.
void fuseEpilogues(func::FuncOp main);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_FUSEEPILOGUES_H
