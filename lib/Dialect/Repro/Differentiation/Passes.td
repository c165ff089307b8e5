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
    (J1) Extends `main` by the computation of gradients. For each result in
    `results`, `main` gets a further argument, the gradient of this result; for
    each argument in `arguments`, `main` gets a further result, the product of
    the given gradients with the Jacobian. All of them are tensors of floats.
    Gradients use the intermediate values of `main`; they recompute a value only
    if `recompute` matches its location (J5). Reductions of gradients are
    `linalg.generic`s, which `convert-linalg-to-repro` converts to folds.

    If an operation between these arguments and these results has no derivative,
    the pass reports an error at the operation's location.

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
               "positions of the results whose gradients are given">,
    ListOption<"arguments", "arguments", "int64_t",
               "positions of the arguments whose gradients are computed">,
    ListOption<"recompute", "recompute", "std::string",
               "glob patterns of locations (names or FILE:LINE) whose "
               "operations are recomputed for the gradients">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::repro::ReproDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // REPRO_DIFFERENTIATION_PASSES_TD
