//===- KernelOpInterface.td - What becomes a kernel --------*- tablegen -*-===//
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
    An operation on buffers that becomes a kernel: a structured operation, or
    one that holds several of them. How a target runs it is told by an interface
    of the target.
  }];
  let methods = [
    InterfaceMethod<"Whether it reads the buffer of this operand.",
      "bool", "readsOperand", (ins "::mlir::OpOperand &":$operand)>,
    InterfaceMethod<"Whether it writes the buffer of this operand.",
      "bool", "writesOperand", (ins "::mlir::OpOperand &":$operand)>,
    InterfaceMethod<"An error where it violates the contract of a kernel.",
      "::llvm::LogicalResult", "verifyKernel">
  ];
}

#endif // REPRO_CODEGEN_SCHEDULE_BUFFERS_KERNELOPINTERFACE_TD
