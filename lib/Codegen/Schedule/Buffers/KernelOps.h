//===- KernelOps.h - Operations that become kernels -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNELOPS_H
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNELOPS_H

#include "mlir/IR/OpDefinition.h"

#include "lib/Codegen/Schedule/Buffers/KernelOpInterface.h.inc"

namespace mlir {
class DialectRegistry;

namespace repro {

/// Attaches KernelOpInterface to all operations that become kernels, including
/// those of MLIR's own dialects.
void registerKernelOps(DialectRegistry &registry);

} // namespace repro
} // namespace mlir

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNELOPS_H
