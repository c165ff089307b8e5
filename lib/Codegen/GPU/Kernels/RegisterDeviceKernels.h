//===- RegisterDeviceKernels.h - Registers the GPU kernels ------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_KERNELS_REGISTERDEVICEKERNELS_H
#define REPRO_CODEGEN_GPU_KERNELS_REGISTERDEVICEKERNELS_H

namespace mlir {
class DialectRegistry;
}

namespace mlir::repro::device {

/// Attaches DeviceKernelOpInterface to all operations that have GPU kernels.
void registerDeviceKernels(DialectRegistry &registry);

} // namespace mlir::repro::device

#endif // REPRO_CODEGEN_GPU_KERNELS_REGISTERDEVICEKERNELS_H
