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
    (T1), (T2) Reduces a canonical program to the part that rank `rank` of
    `ranks` computes. If an argument is cut, the rank's program receives this
    rank's part; its attribute `repro.cut` contains the dimension, the number of
    blocks, and the offsets of the ranks within a block. An operation that reads
    parts computes the corresponding part of its results. If it needs elements
    of several ranks, or if its parts do not match, `repro.all_gather` provides
    the whole tensor. Only parallel dimensions are divided, so each element is
    computed as in the whole program. Results are whole on every rank, except
    for a state that is cut and does not change.

    `arguments` and `dimensions` list the arguments that are cut and their
    dimensions. With `chooses` the pass also cuts states that do not change and
    are factors of contractions with at least `least` products, each along a
    dimension that the contraction keeps, such as the rows of a weight; the heads
    of an attention stay whole. Contractions with that many products are also
    divided if their factors are whole.

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
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "the number of ranks">,
    Option<"rank", "rank", "int64_t", /*default=*/"0", "the rank whose program is made">,
    ListOption<"arguments", "arguments", "int64_t",
               "positions of the arguments that are cut">,
    ListOption<"dimensions", "dimensions", "int64_t",
               "the dimension along which each argument is cut">,
    Option<"chooses", "chooses", "bool", /*default=*/"false",
           "whether the pass cuts further arguments by its own choice">,
    Option<"least", "least", "int64_t", /*default=*/"1048576",
           "the least number of products of a contraction that is divided">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::repro::ReproDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproAssignOwners : Pass<"repro-assign-owners", "::mlir::ModuleOp"> {
  let summary = "the program of one rank, which owns some of the tensors";
  let description = [{
    (T2), (T3) Reduces a canonical program to the part that rank `rank` of
    `ranks` computes if each tensor of `arguments` is on one rank only.
    `arguments` are inputs, and states that change, whose new values stay on the
    owner. Arguments on which the same operation depends have the same owner.
    The pass assigns the groups of arguments in descending order of their bytes,
    each to the rank with the fewest bytes so far, and stores the owner in the
    attribute `repro.owner`. Only the owner computes an operation that reads an
    owned value. If operations of other ranks read its result, a
    `repro.broadcast` sends the result to all ranks. Tensors of one element have
    no owner.

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
    Option<"ranks", "ranks", "int64_t", /*default=*/"1", "the number of ranks">,
    Option<"rank", "rank", "int64_t", /*default=*/"0", "the rank whose program is made">,
    ListOption<"arguments", "arguments", "int64_t",
               "positions of the arguments that have one owner">
  ];
}

def ReproOutlineSegments : Pass<"repro-outline-segments", "::mlir::ModuleOp"> {
  let summary = "computations between exchanges as programs of their own";
  let description = [{
    (T2) Outlines the computations between the exchanges of a rank's program into
    functions, the segments. Afterwards `main` contains only calls of segments
    and the exchanges between them. A segment computes everything that needs no
    later exchange, and its body is canonical. The states of a segment are those
    that it reads and that do not change; all other values are its inputs and
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
