//===- DerivativeOpInterface.td - Derivatives of scalars ---*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_DERIVATIVEOPINTERFACE_TD
#define REPRO_IR_DERIVATIVEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def Repro_DerivativeOpInterface : OpInterface<"DerivativeOpInterface"> {
  let cppNamespace = "::mlir::repro";
  let description = [{
    (J2) An operation on scalars with one result that `repro-differentiate` can
    differentiate. Upstream's operations implement it by external models.
  }];
  let methods = [InterfaceMethod<[{
      Returns the gradients of the operands `x` from the gradient `g` of the
      result `y`. An empty scalar represents a gradient that is zero everywhere;
      operands that are not floats have this gradient.

      All floats have the type in which derivatives are computed: f32 for f32
      and narrower types, f64 for f64.
    }], "::llvm::SmallVector<::mlir::repro::Scalar>", "buildDerivatives",
    (ins "::mlir::repro::Scalar":$g, "::llvm::ArrayRef<::mlir::repro::Scalar>":$x,
         "::mlir::repro::Scalar":$y)>];
}

#endif // REPRO_IR_DERIVATIVEOPINTERFACE_TD
