//===- DeviceKernelOpInterface.td - Kernels of GPUs --------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_KERNELS_DEVICEKERNELOPINTERFACE_TD
#define REPRO_CODEGEN_GPU_KERNELS_DEVICEKERNELOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def DeviceKernelOpInterface : OpInterface<"DeviceKernelOpInterface"> {
  let cppNamespace = "::mlir::repro::device";
  let description = [{
    An operation of a kernel function for which GPUs have kernels.
  }];
  let methods = [
    InterfaceMethod<[{
        Creates the device kernels that replace the operation and run one after
        the other.
      }],
      "::llvm::LogicalResult", "createKernels",
      (ins "::mlir::repro::device::DeviceKernelFactory &":$factory)>
  ];
}

#endif // REPRO_CODEGEN_GPU_KERNELS_DEVICEKERNELOPINTERFACE_TD
