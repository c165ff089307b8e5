//===- SingleLaneStores.h - Replaces masked stores of one lane --*- C++ -*-===//
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

/// Replaces masked stores by scalar stores if a constant mask selects one lane.
/// For AVX-512, LLVM 22.1.8 merges truncations into such masked stores and
/// overwrites the memory after the element (llvm/llvm-project#179489).
void replaceSingleLaneStores(llvm::Module &module);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_LOWERING_SINGLELANESTORES_H
