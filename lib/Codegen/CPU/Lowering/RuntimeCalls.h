//===- RuntimeCalls.h - Calls of exact runtime routines ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_RUNTIMECALLS_H
#define REPRO_CODEGEN_CPU_RUNTIMECALLS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {

/// Emits calls to `routine`, a C function from doubles to a double: one call
/// for f64 operands, or one for each lane of f64 vectors. Returns the result.
Value callRoutine(ImplicitLocOpBuilder &b, StringRef routine,
                  ValueRange operands);

/// Declares the routine in the module unless it is declared already.
void declareRoutine(ModuleOp module, StringRef routine, unsigned numOperands);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_CPU_RUNTIMECALLS_H
