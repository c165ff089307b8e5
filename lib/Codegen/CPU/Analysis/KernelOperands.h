//===- KernelOperands.h - Bytes that kernels read and write -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_ANALYSIS_KERNELOPERANDS_H
#define REPRO_CODEGEN_CPU_ANALYSIS_KERNELOPERANDS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// Returns one line of text for each kernel in `module`: its name, and for each
/// buffer, in the order of the arguments, `read:BYTES`, `write:BYTES` or
/// `read|write:BYTES`.
std::string describeOperands(ModuleOp module);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_ANALYSIS_KERNELOPERANDS_H
