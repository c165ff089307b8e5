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
  let summary = "remove attributes that are not part of a program";
  let description = [{
    Removes the name of the module and every discardable attribute except
    `repro.name` and `repro.num_state`, because they do not affect any bit. This
    is the first pass on a frontend's program.
  }];
}

def ReproSpecializeShapes
    : Pass<"repro-specialize-shapes", "::mlir::ModuleOp"> {
  let summary = "replace symbols by sizes, so that all shapes are static";
  let description = [{
    Specializes an imported program for one size of each symbol. A function with
    `repro.symbols` is an imported program for many sizes: its arguments have
    `repro.extents`, maps from the symbols to their extents. The pass replaces
    each symbol by its size, which must be within `repro.bounds`; integers that
    follow from the sizes become constants, and all tensors get static shapes.
    Conditions on the sizes are `cf.assert`s; a false one is an error. The passes
    after this one encounter no symbols.

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
  let summary = "extract one of the programs of a step in microbatches (B1)";
  let description = [{
    (B1) Reduces an imported program to one of the programs of a step in
    microbatches. The imported program computes a step from one microbatch and
    has a `repro.reduce_microbatches` between the microbatch and everything that
    the step changes. The result depends on `keep`:

    - `keep=part`: the program of a microbatch. It has the same arguments and no
      state. Its results are the operands of the `repro.reduce_microbatches`
      operations, in their order, followed by the outputs that depend on the
      microbatch in another way.
    - `keep=add`: the program that adds two sets of those operands that are
      floats (B2). The first set is its state.
    - `keep=finish`: the program that ends the step. Its arguments are the
      state, the sums of the operands (B2), and the inputs that all microbatches
      share; its results are the new state and the other outputs. It divides each
      sum of floats by the number of microbatches (B3).

    (B5) Each microbatch has its own part of the state tensors `own`. `part`
    receives the part of its microbatch and returns the new part among its last
    results. `finish` has all parts as one tensor with a first dimension for the
    microbatches; it receives the new tensor after the sums and returns it. Any
    other new state that depends on the microbatch without a reduction is an
    error. A value that depends neither on the microbatch nor on the step of the
    random numbers is not reduced.

    (R1) `step` is the argument that counts steps for random numbers. Microbatch
    p receives its value plus p; `finish` adds the number of microbatches.

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
           "the number of microbatches, at most 2^24">,
    ListOption<"cut", "cut", "int64_t",
               "positions, counted after the state, of the arguments of which "
               "each microbatch has its own">,
    ListOption<"own", "own", "int64_t",
               "positions of the state tensors of which each microbatch has its "
               "own">,
    Option<"step", "step", "int64_t", "-1",
           "position in the state of the step of the random numbers, -1 if "
           "there is none">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproUnrollLoops : Pass<"repro-unroll-loops", "::mlir::ModuleOp"> {
  let summary = "unroll loops, branches and calls to a straight line";
  let description = [{
    Removes all control flow, because a canonical program has none. Functions
    are inlined. `scf.for`, `scf.while` and `stablehlo.while` are unrolled; their
    numbers of iterations must follow from constants. For this, the pass evaluates
    integers and comparisons by docs/reference/numerics.md ((S1) to (S4), (I1)), also those
    of small tensors, and replaces known integers by constants. For `scf.if`,
    `scf.index_switch`, `stablehlo.if` and `stablehlo.case`, the pass keeps only
    the branch that is taken. If the branch depends on values, all branches
    remain and `arith.select` selects the results; such branches must not have a
    check (E1).

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
  let summary = "decompose attention by blocks into folds";
  let description = [{
    (K5) Decomposes `repro.attention` and `repro.attention_gradient` into
    products, element-wise operations, maxima and sums of the blocks that the
    rule defines. Blocks of scores that `causal` masks completely are not
    computed. The random numbers of dropout are drawn for all blocks at once.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproDecomposeConvolution : Pass<"repro-decompose-convolution"> {
  let summary = "decompose convolutions into folds, one per stride phase";
  let description = [{
    (K2) Replaces each `repro.convolution` by a `repro.fold` without an order.
    The parallel dimensions are batch, group (if there are groups), channel
    within the group, and positions; the reduction dimensions are channel within
    the group and window. The body is that of (K1).

    If the input is dilated by d, the results are divided into
    d / gcd(stride, d) phases, so that no zeros are inserted. The results of a
    phase, whose positions are equal modulo the number of phases, use the same
    taps of the window. Each phase is a fold of its own over its taps; a phase
    without taps is the initial operand. At the end the results of all phases are
    interleaved. The input is padded once, for the needs of all phases, and
    permutations of batch and channel are applied after the padding, so that a
    convolution and its weight gradient share the padded input.

    More than 4096 phases are an error.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproDecomposeDistributions : Pass<"repro-decompose-distributions"> {
  let summary = "decompose distributions of random numbers to uniform and bits";
  let description = [{
    (R2) Replaces `bernoulli`, `randint` and `normal` of `repro.random` by
    element-wise operations on `uniform` or `bits` at the same site. `normal`
    draws two uniform numbers per element, at positions 2i and 2i+1.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproWidenStorage : Pass<"repro-widen-storage"> {
  let summary = "compute operations on storage types in f32";
  let description = [{
    (V1) Widens element-wise operations on bf16, f16 or f8: each such operand is
    extended exactly to f32, and each such result is rounded once. Conversions
    and selects stay. The step of a `repro.fold` stays too, because (F7) already
    widens accumulators.

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
  let summary = "assign an order to each fold without one";
  let description = [{
    (P0) to (P3) Assigns an order to each `repro.fold` that has none; the order
    depends only on the fold's iterators, maps and step. In the `canonical`
    pipeline the pass runs after the decompositions and before any pass that
    changes a fold.
  }];
}

def ReproFoldConstants : Pass<"repro-fold-constants", "::mlir::ModuleOp"> {
  let summary = "fold constants and canonicalize without a change of any bit";
  let description = [{
    (V3) Folds constants with an evaluator that follows docs/reference/numerics.md, and
    applies the listed identities that keep every bit. Upstream's patterns and
    folders run only on operations that move data or compute integers. Upstream's
    canonicalizer never runs, because it may evaluate floats in ways that the
    numerics do not allow.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproCanonicalize : Pass<"repro-canonicalize"> {
  let summary = "canonicalize without a change of any bit";
  let description = [{
    (V3) Runs exact folding and the canonicalization patterns of all operations
    that compute no numbers. It replaces upstream's canonicalizer, whose patterns
    of arithmetic change bits (for an index that is cast to i8 and back, or an
    integer that is rounded to f32 and then to bf16). The step of a `repro.fold`
    stays.
  }];
}

def ReproSetExact : Pass<"repro-set-exact"> {
  let summary = "set exact sums as the order of contractions";
  let description = [{
    (K4) Replaces the order of contractions (K1) with f32 accumulators by
    `#repro.exact`. The pass changes all of them, or only those whose numbers in
    program order are in `contractions`. Different sums make a different program.
  }];
  let options = [
    Option<"digits", "digits", "int64_t", /*default=*/"3",
           "the number of signed bytes that represent a factor, 2 or 3">,
    ListOption<"contractions", "contractions", "int64_t",
               "the numbers of the contractions to change, from 0; all if empty">
  ];
  let dependentDialects = ["::mlir::repro::ReproDialect"];
}

def ReproQuantizeContractions
    : Pass<"repro-quantize-contractions", "::mlir::ModuleOp"> {
  let summary = "quantize operands and results of contractions";
  let description = [{
    Rounds the operands and the result of each contraction (K1) that has the
    attribute `repro.precision`. The attribute is a dictionary with the entries
    `left` and `right`, for the factors of the body, and `result`. A factor or
    result without an entry is not rounded. The entry of a factor contains

    - `format`: bf16 or f16, in which case the contraction reads a tensor of this
      type; tf32, which rounds to nearest even with 10 bits of fraction and
      stores f32; or `#repro.block_format`, in which case the contraction reads
      the dequantized values. Blocks divide the operand with its batch first and
      K last, where K are the reduction dimensions that both factors index
      directly. Square blocks divide the matrix without a permutation;
    - `hadamard`: (Q5) the 16 or 32 signs of a transform along K that is applied
      before the rounding; both factors need the same signs. `hadamard_bf16`
      rounds the result of the transform to bf16;
    - `amax_of_rows`: for a scale of two levels, whether each row has an amax;
    - `delayed`: (Q6) for a given scale, a dictionary. `name` is the name of a
      scale in the state; all factors with this name share the scale. `history`
      is the number of steps from which the scale is computed, with `margin` and
      `most_recent`. The state gets `amax_history.<name>` and `scale.<name>`.
      Without `history` it gets only the scale, which never changes;
    - `forward = array<i64: n, i>`, instead of the other entries: this factor
      reads the values that factor i (0 or 1) of contraction n reads, permuted in
      the same way as this factor.

    The entry `result` is bf16, f16 or tf32; the result is an f32 that is rounded
    to that precision.

    `blocks`, which is "fused", "split" or "scaled", converts a product of
    matrices to `repro.block_contraction` (Q4). Both factors need block formats
    with the same number of columns; their codes are multiplied under the scales
    of (Q2). `accumulator` is the `#repro.fdpa` of that contraction (M5).

    Equal operands with equal formats are quantized once. (R1) Each stochastic
    rounding is a new site, numbered after the sites of the program. `random` are
    the positions of seed and step in the state; if they are needed but missing,
    the pass adds both to the state. The program must increment the step.
    Operands that are quantized already are an error.

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
  let summary = "set the accumulator of a matrix unit as the order of contractions";
  let description = [{
    (M4) Replaces the order of contractions (K1) with f32 accumulators by
    `#repro.fdpa`. The pass changes all of them, or only those whose numbers in
    program order are in `contractions`. Different sums make a different program.
  }];
  let options = [
    Option<"terms", "terms", "int64_t", /*default=*/"16",
           "the number of products in a block, 1 to 128">,
    Option<"fraction", "fraction", "int64_t", /*default=*/"25",
           "fraction bits relative to the greatest exponent, 10 to 40; 0: all">,
    Option<"round", "round", "std::string", /*default=*/"\"rz_f32\"",
           "rz_f32, rz_e8m13, rne_f16 or rne_f32">,
    Option<"floor", "floor", "int64_t", /*default=*/"-133",
           "the least exponent to which products are aligned">,
    Option<"late", "late", "bool", /*default=*/"false",
           "whether blocks have two halves, and c is added last">,
    Option<"chunk", "chunk", "int64_t", /*default=*/"0",
           "the number of elements in a chain of blocks; 0: all">,
    Option<"start", "start", "std::string", /*default=*/"\"zero\"",
           "zero or init: the start value of a chain">,
    ListOption<"contractions", "contractions", "int64_t",
               "the numbers of the contractions to change, from 0; all if empty">
  ];
  let dependentDialects = ["::mlir::repro::ReproDialect"];
}

def ReproVerifyCanonical : Pass<"repro-verify-canonical", "::mlir::ModuleOp"> {
  let summary = "verify that a program is canonical";
  let description = [{
    Reports an error for each operation, type or attribute whose bits
    docs/reference/numerics.md does not define, and for each access that it does not bound.
    This pass is the last one of the pipeline `canonical` and the first one of
    `schedule`.
  }];
}

#endif // REPRO_TRANSFORMS_PASSES_TD
