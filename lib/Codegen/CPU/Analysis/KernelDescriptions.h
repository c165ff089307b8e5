//===- KernelDescriptions.h - Buffers and operations of kernels -*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_ANALYSIS_KERNELDESCRIPTIONS_H
#define REPRO_CODEGEN_CPU_ANALYSIS_KERNELDESCRIPTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::repro {

/// Returns one line of text for each kernel in `module`. The line has three
/// fields with tabs between them:
/// - the name of the kernel, and for each buffer, in the order of the
///   arguments, `read:BYTES`, `write:BYTES` or `read|write:BYTES`;
/// - the operations that the kernel computes;
/// - the modules, parameters or source lines that these operations come from.
std::string describeKernels(ModuleOp module);

/// Returns the operations that a kernel computes.
std::string describeOperations(func::FuncOp kernel);

/// Returns the modules, parameters or source lines in a location.
std::string describePlaces(Location location);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_ANALYSIS_KERNELDESCRIPTIONS_H
