//===- SoftArithmetic.h - Arithmetic without instructions -------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_LOWERING_SOFTARITHMETIC_H
#define REPRO_CODEGEN_CPU_LOWERING_SOFTARITHMETIC_H

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::repro {

/// Replaces the instructions for which LLVM would call a library on a
/// microcontroller with an FPU for f32 alone: arithmetic, comparisons and
/// conversions of f64, divisions of i64, roundings of f32 to integers, and
/// copies of memory. The results have the same bits as those of other CPUs. The
/// code must be scalar.
void expandSoftArithmetic(llvm::Module &module);

/// Lets a linker keep one copy of each routine that expandSoftArithmetic has
/// added to several objects.
void shareSoftRoutines(llvm::Module &module);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_LOWERING_SOFTARITHMETIC_H
