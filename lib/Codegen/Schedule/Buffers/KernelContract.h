//===- KernelContract.h - The contract of kernel functions ------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNELCONTRACT_H
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNELCONTRACT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::repro {

/// Returns the operation in a kernel function; null if there is none. The
/// operation is structured, or contains structured operations: the `scf.forall`
/// over blocks of rows, or a scope. Emits an error if the function violates the
/// kernel contract (docs/contributors/architecture.md).
FailureOr<Operation *> findKernelBody(func::FuncOp function);

} // namespace mlir::repro

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNELCONTRACT_H
