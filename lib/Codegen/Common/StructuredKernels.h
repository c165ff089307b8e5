//===- StructuredKernels.h - Kernel expansions for all targets --*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// These expansions are shared by repro-expand-kernels (CPU) and
// repro-expand-device-kernels (GPU). Each computes the bits that
// docs/reference/numerics.md defines, on any number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_STRUCTUREDKERNELS_H
#define REPRO_CODEGEN_COMMON_STRUCTUREDKERNELS_H

#include "Codegen/Common/KernelBuilder.h"
#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro::kernels {

/// Expands any fold element by element: the reference for faster expansions,
/// and the fallback if none of them applies.
void expandLiteralFold(KernelBuilder &b, FoldOp op);

/// (M4) Expands a contraction with a matrix unit's accumulator, one result at a
/// time.
void expandAccumulatorFold(KernelBuilder &b, FoldOp op);

/// (Q4) and (M5) Expands a block contraction of integers, or of f8 with f32
/// scales, one result at a time.
void expandLiteralBlockContraction(KernelBuilder &b, BlockContractionOp op);

/// Expands an arg-max or arg-min (D2).
void expandArgReduce(KernelBuilder &b, ArgReduceOp op);
/// Expands a prefix scan (D3).
void expandScan(KernelBuilder &b, ScanOp op);
/// Expands a stable sort (D2).
void expandSort(KernelBuilder &b, SortOp op);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_STRUCTUREDKERNELS_H
