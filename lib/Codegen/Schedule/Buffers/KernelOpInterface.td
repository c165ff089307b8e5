//===- KernelOpInterface.td - Operations of kernels --------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNELOPINTERFACE_TD
#define REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNELOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::mlir::repro";
  let description = [{
    An operation on buffers that becomes a kernel: a structured operation, or an
    operation that contains several structured operations. Each target defines an
    interface of its own for the code of the kernel.
  }];
  let methods = [
    InterfaceMethod<"Whether the operation reads the buffer of `operand`.",
      "bool", "readsOperand", (ins "::mlir::OpOperand &":$operand)>,
    InterfaceMethod<"Whether the operation writes the buffer of `operand`.",
      "bool", "writesOperand", (ins "::mlir::OpOperand &":$operand)>,
    InterfaceMethod<"Reports an error if the operation violates the contract of a kernel.",
      "::llvm::LogicalResult", "verifyKernel">
  ];
}

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNELOPINTERFACE_TD
