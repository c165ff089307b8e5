//===- Passes.td - Differentiation of imported programs -*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_DIFFERENTIATION_PASSES_TD
#define REPRO_DIFFERENTIATION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ReproDifferentiate : Pass<"repro-differentiate", "::mlir::ModuleOp"> {
  let summary = "reverse-mode differentiation of an imported program";
  let description = [{
    (J1) `main` gets a further argument for each result that `results` names,
    the gradient of it, and a further result for each argument that `arguments`
    names: the product of the former gradients with the Jacobian. All are
    tensors of floats. What is computed on the way is used, not computed again,
    unless `recompute` names where it comes from (J5).
    Reductions of gradients are `linalg.generic`s: `convert-linalg-to-repro`
    makes folds of them.

    An operation on the way from these arguments to these results that has no
    derivative is an error at its location.

    ```mlir
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {repro.num_state = 0 : i64} {
      %empty = tensor.empty() : tensor<4xf32>
      %y = linalg.generic {
          indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
          ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
      ^bb0(%e: f32, %out: f32):
        %s = repro.sin %e : f32
        linalg.yield %s : f32
      } -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let options = [
    ListOption<"results", "results", "int64_t",
               "positions of the results of which gradients are given">,
    ListOption<"arguments", "arguments", "int64_t",
               "positions of the arguments of which gradients are computed">,
    ListOption<"recompute", "recompute", "std::string",
               "glob patterns of locations, their names or FILE:LINE, whose "
               "operations are computed again for the gradients">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::repro::ReproDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // REPRO_DIFFERENTIATION_PASSES_TD
