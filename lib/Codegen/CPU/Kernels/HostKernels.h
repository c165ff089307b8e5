//===- HostKernels.h - Expansions of the CPU kernels ------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_HOSTKERNELS_H
#define REPRO_CODEGEN_CPU_KERNELS_HOSTKERNELS_H

#include "Codegen/CPU/Kernels/HostBuilder.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include "lib/Codegen/CPU/Kernels/HostKernelOpInterface.h.inc"

namespace mlir::repro::cpu {

/// Expands an elementwise operation: all its dimensions are parallel.
void expandElementwise(HostBuilder &b, linalg::GenericOp op);
/// Expands a copy of a whole buffer.
void expandCopy(HostBuilder &b, memref::CopyOp op);

/// Expands a loop over blocks of rows. The loop contains several operations.
LogicalResult expandBlocks(HostBuilder &b, scf::ForallOp op);
/// Expands a contraction and the elementwise operation on its results (F7).
/// Only the results of the latter are stored.
LogicalResult expandScope(HostBuilder &b, memref::AllocaScopeOp op);

/// Expands any fold, with the first of the functions below that supports it.
void expandFold(HostBuilder &b, FoldOp op);
/// (K1) Expands an fma fold of two factors, with lanes = 1, to register tiles.
LogicalResult expandContraction(HostBuilder &b, FoldOp op);
/// (M4) Expands a contraction with the sums of a matrix unit.
LogicalResult expandAccumulator(HostBuilder &b, FoldOp op);
/// Expands a fold so that the lanes of a vector lie along the reduction.
LogicalResult expandRowFold(HostBuilder &b, FoldOp op);
/// Expands a fold so that each lane of a vector computes one result.
LogicalResult expandColumnFold(HostBuilder &b, FoldOp op);

/// (Q4), (M5) Expands a block contraction to register tiles, or, if none of the
/// tiled kernels supports it, to a loop over the results.
void expandBlockContraction(HostBuilder &b, BlockContractionOp op);
/// Whether adjacent elements of the last dimension are adjacent in memory.
bool isInRows(Value memref);
/// (M5) Expands a block contraction to register tiles. Fails if the kernel does
/// not support its rule, shape or layout.
LogicalResult expandAccumulatedBlocks(HostBuilder &b, BlockContractionOp op);

/// (D1) Expands a scatter: updates are combined with slices of a destination.
void expandScatter(HostBuilder &b, ScatterOp op);

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_HOSTKERNELS_H
