//===- Passes.td - Canonical-to-canonical passes -----------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TRANSFORMS_PASSES_TD
#define REPRO_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ReproStripAttributes
    : Pass<"repro-strip-attributes", "::mlir::ModuleOp"> {
  let summary = "attributes that are no part of a program go";
  let description = [{
    Every discardable attribute but `repro.name` and `repro.num_state` goes, and
    the name of the module: they say nothing about the bits. This is the first
    pass on what a frontend hands over.
  }];
}

def ReproSpecializeShapes
    : Pass<"repro-specialize-shapes", "::mlir::ModuleOp"> {
  let summary = "symbols become sizes, and shapes static";
  let description = [{
    A function with `repro.symbols` is an imported program for many sizes: its
    arguments have `repro.extents`, maps from the symbols to their extents. Each
    symbol gets its size, within its `repro.bounds`; integers that follow from
    the sizes become constants, and all tensors static. Conditions on the sizes
    are `cf.assert`s: one that is false is an error. What follows is the program
    of these sizes alone, so the passes after this one know no symbols.

    ```mlir
    func.func @main(%x: tensor<?x8xf32> {repro.extents = affine_map<()[s0] -> (s0, 8)>})
        -> tensor<?x4xf32>
        attributes {repro.num_state = 0 : i64, repro.symbols = ["batch"], repro.bounds = array<i64: 1, 64>} {
      %dim = arith.constant 0 : index
      %batch = tensor.dim %x, %dim : tensor<?x8xf32>
      %half = tensor.extract_slice %x[0, 0] [%batch, 4] [1, 1] : tensor<?x8xf32> to tensor<?x4xf32>
      return %half : tensor<?x4xf32>
    }
    ```
  }];
  let options = [
    ListOption<"sizes", "sizes", "std::string",
               "the size of each symbol, as symbol=size">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproSplitMicrobatches
    : Pass<"repro-split-microbatches", "::mlir::ModuleOp"> {
  let summary = "one of the programs of a step in microbatches (B1)";
  let description = [{
    (B1) An imported program computes a step from one microbatch, with a
    `repro.reduce_microbatches` on the way to all that the step changes. What is
    left of it:

    - `keep=part`: the program of a microbatch. It has the same arguments and no
      state. Its results are the operands of these operations, in their order,
      then the outputs that depend on the microbatch in another way.
    - `keep=add`: the program that adds two sets of these operands that are
      floats (B2). The first set is its state.
    - `keep=finish`: the program that ends the step. Its arguments are the
      state, the sums of these operands (B2), and the inputs that all
      microbatches share; its results are the new state and the other outputs. A
      sum of floats is divided by the number of microbatches (B3).

    (B5) Of the state tensors `own` each microbatch has its own. `part` takes and
    gives that of a microbatch, among its last results; `finish` has all of them
    as one tensor with a first dimension for the microbatches, takes the new one
    behind the sums, and gives it. Any other new state that depends on the
    microbatch in another way is an error. A value that does not depend on the microbatch, nor on the step of the random
    numbers, is not reduced.

    (R1) `step` is the argument that counts steps for random numbers. Microbatch
    p is given its value plus p; `finish` adds the number of microbatches.

    ```mlir
    func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
        attributes {repro.num_state = 1 : i64} {
      %g = repro.reduce_microbatches %x : tensor<4xf32>
      return %g, %g : tensor<4xf32>, tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"keep", "keep", "std::string", "", "part, add or finish">,
    Option<"microbatches", "microbatches", "int64_t", "1",
           "how many there are, at most 2^24">,
    ListOption<"cut", "cut", "int64_t",
               "positions of the arguments of which each microbatch has its "
               "own, behind the state">,
    ListOption<"own", "own", "int64_t",
               "positions of the state tensors of which each microbatch has its "
               "own">,
    Option<"step", "step", "int64_t", "-1",
           "position in the state of the step of the random numbers, -1 where "
           "there is none">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproUnrollLoops : Pass<"repro-unroll-loops", "::mlir::ModuleOp"> {
  let summary = "loops, branches and calls become a straight line";
  let description = [{
    A canonical program has no control flow. Functions are written where they
    are called; `scf.for`, `scf.while` and `stablehlo.while` as often as they
    run, which has to follow from constants: integers and comparisons are
    evaluated by docs/numerics.md ((S1) to (S4), (I1)), those of small tensors
    too, and integers that are known become constants. Of `scf.if`,
    `scf.index_switch`, `stablehlo.if` and `stablehlo.case` the side remains
    that is taken; where that depends on values, all sides do, and
    `arith.select` takes the results: such sides may have no check (E1).

    ```mlir
    func.func @main(%x: i32) -> i32 {
      %begin = arith.constant 0 : index
      %end = arith.constant 2 : index
      %step = arith.constant 1 : index
      %r = scf.for %i = %begin to %end step %step iter_args(%v = %x) -> (i32) {
        %n = arith.muli %v, %v : i32
        scf.yield %n : i32
      }
      return %r : i32
    }
    ```

    becomes

    ```mlir
    func.func @main(%x: i32) -> i32 {
      %0 = arith.muli %x, %x : i32
      %r = arith.muli %0, %0 : i32
      return %r : i32
    }
    ```

    A number of iterations that depends on values, recursion, and more than
    1,000,000 operations are errors at the outermost loop or call.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproDecomposeAttention : Pass<"repro-decompose-attention"> {
  let summary = "attention by blocks becomes folds";
  let description = [{
    (K5) `repro.attention` and `repro.attention_gradient` become products,
    element-wise operations, maxima and sums of the blocks that the rule names.
    Blocks of scores that `causal` leaves without any are not computed. What
    dropout keeps is drawn for all blocks at once.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproDecomposeConvolution : Pass<"repro-decompose-convolution"> {
  let summary = "convolutions become folds, one for each stride phase";
  let description = [{
    (K2) Each `repro.convolution` becomes a `repro.fold` without an order. The
    parallel dimensions are batch, group where there are groups, channel within
    the group and positions, the reduction dimensions are channel within the
    group and window; the body is that of (K1).

    Where the input is dilated, results whose positions are equal modulo the
    number of phases, d / gcd(stride, d) for dilation d, have their window at
    the same elements of the input: each such phase is a fold of its own, with
    the taps of its own. A phase without taps is the initial operand. Results of
    all phases are interleaved at the end. So no zero is inserted. The input is
    padded once, by what any phase reads, and permutations of batch and channel
    are read through, so that a convolution and its weight gradient share the
    padded input.

    More than 4096 phases are an error.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproDecomposeDistributions : Pass<"repro-decompose-distributions"> {
  let summary = "random numbers of all distributions from two";
  let description = [{
    (R2) `bernoulli`, `randint` and `normal` of `repro.random` become element-wise
    operations on `uniform` or `bits` at the same site. `normal` draws two
    uniform numbers for each element, those at positions 2i and 2i+1.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproWidenStorage : Pass<"repro-widen-storage"> {
  let summary = "operations on storage types compute in f32";
  let description = [{
    (V1) An element-wise operation with an operand or a result of bf16, f16 or
    f8 computes on the exact f32 of each such operand, and each such result is
    rounded once. Conversions and selects stay, and so does the step of a
    `repro.fold`: accumulators are extended by (F7).

    ```mlir
    func.func @add(%x: bf16, %y: bf16) -> bf16 {
      %r = arith.addf %x, %y : bf16
      return %r : bf16
    }
    ```

    becomes

    ```mlir
    func.func @add(%x: bf16, %y: bf16) -> bf16 {
      %0 = arith.extf %x : bf16 to f32
      %1 = arith.extf %y : bf16 to f32
      %2 = arith.addf %0, %1 : f32
      %r = arith.truncf %2 : f32 to bf16
      return %r : bf16
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def ReproAssignOrders : Pass<"repro-assign-orders"> {
  let summary = "each fold without an order gets one";
  let description = [{
    (P0) to (P3): the order of a `repro.fold` follows from its iterators, maps
    and step alone. A fold that has an order keeps it. In the
    `canonical` pipeline it runs after the decompositions, before anything that
    changes a fold.
  }];
}

def ReproFoldConstants : Pass<"repro-fold-constants", "::mlir::ModuleOp"> {
  let summary = "exact folding and canonicalization, and no other";
  let description = [{
    (V3) Upstream's canonicalizer may evaluate floats in ways that the numerics
    do not allow, so it never runs. This pass folds constants by its own
    evaluator of docs/numerics.md, applies the listed identities that keep every
    bit, and runs upstream patterns and folders only of operations that move
    data or compute integers.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproCanonicalize : Pass<"repro-canonicalize"> {
  let summary = "canonicalization that keeps every bit";
  let description = [{
    (V3) In the place of upstream's canonicalizer, whose patterns of arithmetic
    change bits (an index that is cast to i8 and back, an integer rounded to f32
    and then to bf16): exact folding, and the canonicalization patterns of all
    operations that compute no numbers. The step of a `repro.fold` stays.
  }];
}

def ReproSetExact : Pass<"repro-set-exact"> {
  let summary = "contractions get exact sums";
  let description = [{
    (K4) `#repro.exact` takes the place of the order of contractions (K1) with
    f32 accumulators, all of them or those that `contractions` names by their
    numbers in program order. A program with other sums is another program.
  }];
  let options = [
    Option<"digits", "digits", "int64_t", /*default=*/"3",
           "signed bytes that hold a factor, 2 or 3">,
    ListOption<"contractions", "contractions", "int64_t",
               "the numbers of some contractions, from 0">
  ];
  let dependentDialects = ["::mlir::repro::ReproDialect"];
}

def ReproQuantizeContractions
    : Pass<"repro-quantize-contractions", "::mlir::ModuleOp"> {
  let summary = "operands and results of contractions in lower precision";
  let description = [{
    A contraction (K1) with the attribute `repro.precision` reads operands that
    are rounded, and its result is rounded. The attribute has `left` and
    `right`, the factors of the body, and `result`; each may be missing, and
    what is missing stays. A factor has

    - `format`: bf16 or f16, a tensor of which is read; tf32, to nearest even
      with 10 bits of fraction, as f32; or `#repro.block_format`, whose
      dequantized values are read. Blocks are of the operand with its batch
      first and K last, K being the reduction dimensions that both factors index
      by themselves; square blocks are of a matrix as it is;
    - `hadamard`: (Q5) 16 or 32 signs of a transform along K before it is
      rounded; both factors need the same. `hadamard_bf16` rounds what it gives;
    - `amax_of_rows`: of a scale of two levels, each row has an amax;
    - `delayed`: (Q6) of a scale that is given, a dictionary: `name` of a scale in
      the state, by which all is quantized that names it, and `history`, how many
      steps it is made of, with `margin` and `most_recent`. The state gets
      `amax_history.<name>` and `scale.<name>`. Without `history` it gets the
      scale alone, which stays as it is;
    - `forward = array<i64: n, i>` in place of all of it: the values that factor i
      (0 or 1) of contraction n reads, moved as this factor is.

    `result` is bf16, f16 or tf32; the result is an f32 of that precision.

    `blocks`, "fused" or "split", makes repro.block_contraction (Q4) of a product
    of matrices: both factors have formats of blocks, with as many columns, and
    their codes are multiplied under the scales of (Q2). Equal
    formats of equal operands are made once. (R1) Each stochastic rounding is a
    site behind those of the program; `random` are the positions of seed and step
    in the state, which gets both where they are missing and needed; the step has
    to count. Operands that are in blocks already are an error.

    ```mlir
    %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>,
                          affine_map<(m, n, k) -> (n, k)>,
                          affine_map<(m, n, k) -> (m, n)>]
        iterators [parallel, parallel, reduction]
        ins(%x, %w : tensor<8x64xf32>, tensor<4x64xf32>) outs(%zero : tensor<8x4xf32>)
        attributes {repro.precision = {left = {format = bf16}, right = {format = bf16}}} {
    ^bb0(%a: f32, %b: f32, %acc: f32):
      %s = math.fma %a, %b, %acc : f32
      repro.yield %s : f32
    } -> tensor<8x4xf32>
    ```
  }];
  let options = [
    ListOption<"random", "random", "int64_t",
               "the positions of seed and step in the state">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::repro::ReproDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproSetAccumulator : Pass<"repro-set-accumulator"> {
  let summary = "contractions get an accumulator of matrix units";
  let description = [{
    (M4) `#repro.fdpa` takes the place of the order of contractions (K1) with
    f32 accumulators, all of them or those that `contractions` names by their
    numbers in program order. A program with other sums is another program.
  }];
  let options = [
    Option<"terms", "terms", "int64_t", /*default=*/"16",
           "products of a block, 1 to 128">,
    Option<"fraction", "fraction", "int64_t", /*default=*/"25",
           "bits after the point of the greatest exponent, 10 to 40; 0: all">,
    Option<"round", "round", "std::string", /*default=*/"\"rz_f32\"",
           "rz_f32, rz_e8m13, rne_f16 or rne_f32">,
    Option<"floor", "floor", "int64_t", /*default=*/"-133",
           "the least exponent by which products are aligned">,
    Option<"late", "late", "bool", /*default=*/"false",
           "blocks of two halves, to which c is added last">,
    Option<"chunk", "chunk", "int64_t", /*default=*/"0",
           "elements of a chain of blocks; 0: all">,
    Option<"start", "start", "std::string", /*default=*/"\"zero\"",
           "zero or init: where a chain starts">,
    ListOption<"contractions", "contractions", "int64_t",
               "the numbers of some contractions, from 0">
  ];
  let dependentDialects = ["::mlir::repro::ReproDialect"];
}

def ReproVerifyCanonical : Pass<"repro-verify-canonical", "::mlir::ModuleOp"> {
  let summary = "accept only what the numerics define";
  let description = [{
    Ends the `canonical` pipeline and begins `schedule`: an operation, type or
    attribute whose bits docs/numerics.md does not define, or an access that it
    does not bound, is an error at its location.
  }];
}

#endif // REPRO_TRANSFORMS_PASSES_TD
