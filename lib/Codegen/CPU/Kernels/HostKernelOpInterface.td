//===- HostKernelOpInterface.td - Kernels of CPUs ----------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_HOSTKERNELOPINTERFACE_TD
#define REPRO_CODEGEN_CPU_KERNELS_HOSTKERNELOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def HostKernelOpInterface : OpInterface<"HostKernelOpInterface"> {
  let cppNamespace = "::mlir::repro::cpu";
  let description = [{
    An operation of a kernel function for which CPUs have a kernel.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the loops that replace the operation and sets the amount of work;
        the builder erases the operation.
      }],
      "::llvm::LogicalResult", "expandKernel",
      (ins "::mlir::repro::cpu::HostBuilder &":$b)>
  ];
}

#endif // REPRO_CODEGEN_CPU_KERNELS_HOSTKERNELOPINTERFACE_TD
