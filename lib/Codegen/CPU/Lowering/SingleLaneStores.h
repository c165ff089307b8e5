//===- SingleLaneStores.h - Masked stores of one lane -----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_LOWERING_SINGLELANESTORES_H
#define REPRO_CODEGEN_CPU_LOWERING_SINGLELANESTORES_H

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::repro {

/// Makes masked stores whose mask is known to have one lane stores of that
/// element. Code generation for AVX-512 (LLVM 22.1.8; llvm/llvm-project#179489)
/// merges a truncation into such a store and then writes an element of the
/// wider type: what lies behind it in memory is lost.
void replaceSingleLaneStores(llvm::Module &module);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_LOWERING_SINGLELANESTORES_H
