//===- StructuredKernels.h - Expansions for all targets ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_STRUCTUREDKERNELS_H
#define REPRO_CODEGEN_COMMON_STRUCTUREDKERNELS_H

#include "Codegen/Common/KernelBuilder.h"
#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro::kernels {

/// Any fold, element after element: what the others are measured against and
/// what remains when none of them fits.
void expandLiteralFold(KernelBuilder &b, FoldOp op);

/// (M4) A contraction in an accumulator of matrix units, result after result.
void expandAccumulatorFold(KernelBuilder &b, FoldOp op);

/// (Q4) of integers or f8 with scales of f32, and (M5): result after result.
void expandLiteralBlockContraction(KernelBuilder &b, BlockContractionOp op);

void expandArgReduce(KernelBuilder &b, ArgReduceOp op);
void expandScan(KernelBuilder &b, ScanOp op);
void expandSort(KernelBuilder &b, SortOp op);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_STRUCTUREDKERNELS_H
