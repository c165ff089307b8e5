//===- AdjointOpInterface.td - Adjoints of operations -*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIFFERENTIATION_ADJOINTOPINTERFACE_TD
#define REPRO_DIFFERENTIATION_ADJOINTOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def AdjointOpInterface : OpInterface<"AdjointOpInterface"> {
  let cppNamespace = "::mlir::repro";
  let description = [{
    (J1) An operation of imported programs that `repro-differentiate` goes
    through, by an external model.
  }];
  let methods = [InterfaceMethod<[{
      Adds what the operation contributes to the adjoints of its active operands,
      given those of its results. Fails after an error.
    }], "::llvm::LogicalResult", "addAdjoints",
    (ins "::mlir::repro::Adjoints &":$adjoints)>];
}

#endif // REPRO_DIFFERENTIATION_ADJOINTOPINTERFACE_TD
