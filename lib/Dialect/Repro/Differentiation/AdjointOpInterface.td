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
    (J1) An operation of imported programs that `repro-differentiate` can
    differentiate. Operations implement it by external models.
  }];
  let methods = [InterfaceMethod<[{
      Adds the operation's contribution to the adjoints of its active operands,
      which it computes from the adjoints of its results. Returns failure after
      it has reported an error.
    }], "::llvm::LogicalResult", "addAdjoints",
    (ins "::mlir::repro::Adjoints &":$adjoints)>];
}

#endif // REPRO_DIFFERENTIATION_ADJOINTOPINTERFACE_TD
