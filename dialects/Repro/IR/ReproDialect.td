//===- ReproDialect.td - The repro dialect -----------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_REPRODIALECT_TD
#define REPRO_IR_REPRODIALECT_TD

include "mlir/IR/DialectBase.td"

def Repro_Dialect : Dialect {
  let name = "repro";
  let cppNamespace = "::mlir::repro";
  let summary = "Tensor programs whose every bit is defined";
  let description = [{
    The `repro` dialect contains the operations of a neural network's training or
    inference step whose result upstream dialects do not define: the order of a
    reduction, the rounding of an elementary function, the stream of a random
    number, the winner of a tie. Each operation refers to the rules of
    docs/reference/numerics.md by their labels: (F1), (S5), ...

    Element-wise computation stays in `linalg.generic` over `arith` and the exact
    operations of `math`. A module that contains only these operations, has an
    order on every reduction and passes `repro-verify-canonical` is a *canonical*
    program: its bits are defined, and its hash is its identity.
  }];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::tensor::TensorDialect"
  ];
  // `repro.init`, for folds on buffers: the initial values, one constant per
  // output. A fold with this attribute only writes its output buffers.
  let discardableAttrs = (ins "::mlir::ArrayAttr":$init);
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
}

#endif // REPRO_IR_REPRODIALECT_TD
