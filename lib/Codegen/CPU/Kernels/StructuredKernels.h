//===- StructuredKernels.h - One expansion per kind of kernel ---*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_STRUCTUREDKERNELS_H
#define REPRO_CODEGEN_CPU_KERNELS_STRUCTUREDKERNELS_H

#include "Codegen/CPU/Kernels/KernelBuilder.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::repro::cpu {

/// Operations on all elements of parallel dimensions.
void expandElementwise(KernelBuilder &b, linalg::GenericOp op);
void expandCopy(KernelBuilder &b, memref::CopyOp op);

/// Any fold, element after element: what the others are measured against and
/// what remains when none of them fits.
void expandLiteralFold(KernelBuilder &b, FoldOp op);

/// (K1) fma folds of lanes = 1 over two factors, in register tiles.
LogicalResult expandContraction(KernelBuilder &b, FoldOp op);
/// With `epilogue` on the results; these are not stored themselves.
LogicalResult expandContraction(KernelBuilder &b, FoldOp op,
                                linalg::GenericOp epilogue);
/// Folds whose lanes lie along the reduction dimensions.
LogicalResult expandRowFold(KernelBuilder &b, FoldOp op);
/// Folds that compute several results at once, one per vector lane.
LogicalResult expandColumnFold(KernelBuilder &b, FoldOp op);

void expandArgReduce(KernelBuilder &b, ArgReduceOp op);
void expandScatter(KernelBuilder &b, ScatterOp op);
void expandScan(KernelBuilder &b, ScanOp op);
void expandSort(KernelBuilder &b, SortOp op);

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_STRUCTUREDKERNELS_H
