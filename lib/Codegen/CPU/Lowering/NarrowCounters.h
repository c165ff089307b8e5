//===- NarrowCounters.h - Counters of 32 bits -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_LOWERING_NARROWCOUNTERS_H
#define REPRO_CODEGEN_CPU_LOWERING_NARROWCOUNTERS_H

#include "llvm/IR/Analysis.h"
#include "llvm/IR/PassManager.h"

namespace mlir::repro {

/// Replaces the i64 counters of loops and the comparisons of i64 by those of
/// i32 if the values are known to be less than 2^31. Kernels count in i64; on a
/// processor of 32 bits, each operation on an i64 takes several instructions,
/// and LLVM does not move addresses along with a counter that is truncated.
/// Also removes prefetches, which such processors ignore.
llvm::PreservedAnalyses narrowCounters(llvm::Function &function,
                                       llvm::FunctionAnalysisManager &analyses);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_LOWERING_NARROWCOUNTERS_H
