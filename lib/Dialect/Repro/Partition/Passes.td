//===- Passes.td - Partition of programs among ranks -*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_PARTITION_PASSES_TD
#define REPRO_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ReproPartition : Pass<"repro-partition", "::mlir::ModuleOp"> {
  let summary = "the program of one of several ranks";
  let description = [{
    (T1), (T2) Makes of a canonical program what rank `rank` of `ranks` computes
    of it. Of an argument that is cut, the program takes this rank's part, and
    the attribute `repro.cut` says which: dimension, blocks, and the offsets of
    the ranks within a block. Of an operation that reads parts, the rank
    computes the part that follows from them; where elements of several ranks
    are needed, or parts do not fit together, a `repro.all_gather` gives the
    whole. Parallel dimensions alone are divided, so that each element is
    computed as in the whole program. Results are whole on every rank, but for
    a state that is cut and does not change.

    `arguments` and `dimensions` say which arguments are cut, and along which
    dimension. With `chooses` the pass also cuts the states that do not change
    and that are factors of contractions of at least `least` products, each
    along a dimension that the contraction keeps: the rows of a weight, heads of
    an attention whole. A contraction of as many products is divided also where
    its factors are whole.

    ```mlir
    func.func @main(%w: tensor<6x4xf32>, %x: tensor<3x4xf32>) -> (tensor<6x4xf32>, tensor<3x6xf32>)
        attributes {repro.num_state = 1 : i64} {
      %zero = arith.constant 0.000000e+00 : f32
      %empty = tensor.empty() : tensor<3x6xf32>
      %init = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
          outs(%empty : tensor<3x6xf32>) {
      ^bb0(%out: f32):
        linalg.yield %zero : f32
      } -> tensor<3x6xf32>
      %y = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
          maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
          iterators [parallel, parallel, reduction]
          ins(%x, %w : tensor<3x4xf32>, tensor<6x4xf32>) outs(%init : tensor<3x6xf32>) {
      ^bb0(%a: f32, %b: f32, %acc: f32):
        %p = math.fma %a, %b, %acc : f32
        repro.yield %p : f32
      } -> tensor<3x6xf32>
      return %w, %y : tensor<6x4xf32>, tensor<3x6xf32>
    }
    ```
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "how many ranks there are">,
    Option<"rank", "rank", "int64_t", /*default=*/"0", "whose program is made">,
    ListOption<"arguments", "arguments", "int64_t",
               "positions of the arguments that are cut">,
    ListOption<"dimensions", "dimensions", "int64_t",
               "the dimension along which each of them is cut">,
    Option<"chooses", "chooses", "bool", /*default=*/"false",
           "whether the pass chooses further arguments">,
    Option<"least", "least", "int64_t", /*default=*/"1048576",
           "the fewest products of a contraction that is worth dividing">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::repro::ReproDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproAssignOwners : Pass<"repro-assign-owners", "::mlir::ModuleOp"> {
  let summary = "the program of a rank that owns some of the tensors";
  let description = [{
    (T2), (T3) Makes of a canonical program what rank `rank` of `ranks` computes
    of it where each of `arguments` is on one rank alone: inputs, and states
    that change, whose new values stay there. Arguments from which an operation
    computes belong together; the owner, in the attribute `repro.owner`, is the
    rank that has the fewest bytes so far, the largest first. An operation that
    reads what one rank owns is computed by that rank alone, whatever it does.
    Where others read what it gives, a `repro.broadcast` sends it to all.
    Tensors of one element are owned by nobody.

    ```mlir
    func.func @main(%p: tensor<2xf32>, %m: tensor<2xf32>, %g: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
        attributes {repro.num_state = 2 : i64} {
      %0 = repro.barrier %g : tensor<2xf32>
      %1 = repro.barrier %p : tensor<2xf32>
      return %1, %0 : tensor<2xf32>, tensor<2xf32>
    }
    ```
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "how many ranks there are">,
    Option<"rank", "rank", "int64_t", /*default=*/"0", "whose program is made">,
    ListOption<"arguments", "arguments", "int64_t",
               "positions of the arguments that one rank owns">
  ];
}

def ReproOutlineSegments : Pass<"repro-outline-segments", "::mlir::ModuleOp"> {
  let summary = "what is computed between exchanges, as programs of their own";
  let description = [{
    (T2) Makes a plan of the program of a rank: `main` calls segments, each of
    which computes all that needs no later exchange, with the exchanges between
    them. A segment is a function whose body is canonical. States that do not
    change and that it reads are its states, everything else are inputs and
    outputs. A scalar is computed in each segment that reads it.

    ```mlir
    func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> attributes {repro.num_state = 0 : i64} {
      %0 = repro.barrier %x : tensor<2xf32>
      %1 = repro.all_gather %0 dimension = 0 blocks = 1 sizes = [2, 2] : tensor<2xf32> -> tensor<4xf32>
      %2 = repro.barrier %1 : tensor<4xf32>
      return %2 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

#endif // REPRO_PARTITION_PASSES_TD
