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

/// Operations on all elements of parallel dimensions.
void expandElementwise(HostBuilder &b, linalg::GenericOp op);
/// A copy of all elements.
void expandCopy(HostBuilder &b, memref::CopyOp op);

/// Several operations on blocks of rows.
LogicalResult expandBlocks(HostBuilder &b, scf::ForallOp op);
/// A contraction and the operation on its results, which are not stored
/// themselves.
LogicalResult expandScope(HostBuilder &b, memref::AllocaScopeOp op);

/// Any fold, by the first of the following functions that accepts it.
void expandFold(HostBuilder &b, FoldOp op);
/// (K1) fma folds with lanes = 1 over two factors, in register tiles.
LogicalResult expandContraction(HostBuilder &b, FoldOp op);
/// (M4) The same in a matrix unit's accumulator.
LogicalResult expandAccumulator(HostBuilder &b, FoldOp op);
/// Folds whose lanes lie along the reduction dimensions.
LogicalResult expandRowFold(HostBuilder &b, FoldOp op);
/// Folds that compute several results at once, one for each vector lane.
LogicalResult expandColumnFold(HostBuilder &b, FoldOp op);

/// (Q4), (M5) In register tiles, or one result after another.
void expandBlockContraction(HostBuilder &b, BlockContractionOp op);
/// Whether neighbours along the last dimension are neighbours in memory.
bool isInRows(Value memref);
/// (M5) In register tiles; fails if register tiles cannot be used.
LogicalResult expandAccumulatedBlocks(HostBuilder &b, BlockContractionOp op);

/// (D1) Updates of slices of a destination.
void expandScatter(HostBuilder &b, ScatterOp op);

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_HOSTKERNELS_H
