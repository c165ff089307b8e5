//===- StructuredKernels.h - Kernel expansions for all targets --*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expansions that repro-expand-kernels (CPU) and repro-expand-device-kernels
// (GPU) share. Each computes the bits that docs/reference/numerics.md defines,
// for any number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_STRUCTUREDKERNELS_H
#define REPRO_CODEGEN_COMMON_STRUCTUREDKERNELS_H

#include "Codegen/Common/KernelBuilder.h"
#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro::kernels {

/// Expands any fold literally, element by element. Used if no faster expansion
/// supports the fold.
void expandLiteralFold(KernelBuilder &b, FoldOp op);

/// (M4) Expands a contraction whose sums are those of a matrix unit, one result
/// at a time.
void expandAccumulatorFold(KernelBuilder &b, FoldOp op);

/// (Q4), (M5) Expands a block contraction of integers, or of f8 with f32
/// scales, one result at a time.
void expandLiteralBlockContraction(KernelBuilder &b, BlockContractionOp op);

/// (D2) Expands an arg-max or arg-min.
void expandArgReduce(KernelBuilder &b, ArgReduceOp op);
/// (D3) Expands a prefix scan.
void expandScan(KernelBuilder &b, ScanOp op);
/// (D2) Expands a stable sort.
void expandSort(KernelBuilder &b, SortOp op);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_STRUCTUREDKERNELS_H
