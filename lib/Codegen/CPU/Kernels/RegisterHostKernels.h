//===- RegisterHostKernels.h - Registers the CPU kernels --------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_REGISTERHOSTKERNELS_H
#define REPRO_CODEGEN_CPU_KERNELS_REGISTERHOSTKERNELS_H

namespace mlir {
class DialectRegistry;
}

namespace mlir::repro::cpu {

/// Attaches HostKernelOpInterface to all operations that have CPU kernels.
void registerHostKernels(DialectRegistry &registry);

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_REGISTERHOSTKERNELS_H
