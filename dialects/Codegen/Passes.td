//===- Passes.td - Passes common to all targets ------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_PASSES_TD
#define REPRO_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Schedule, on tensors
//===----------------------------------------------------------------------===//

def ReproExpandChecks : Pass<"repro-expand-checks", "::mlir::func::FuncOp"> {
  let summary = "(E1) what can fail becomes an assertion";
  let description = [{
    Each `tensor.extract` and each step of a `repro.random` is checked by a
    `cf.assert` of its own, and the index clamped, so that folding and fusion
    are free to change what becomes of the element and no check goes with it.
    `repro.scatter` keeps its check and is an effect as well.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::cf::ControlFlowDialect"];
}

def ReproDecomposeRandom : Pass<"repro-decompose-random", "::mlir::func::FuncOp"> {
  let summary = "random numbers become integer arithmetic";
  let description = [{
    Each `repro.random` becomes a `linalg.generic` that computes Philox4x32-10
    (R1) and the distribution (R2) from `linalg.index`, so that it fuses like
    any other element-wise operation.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect"];
}

def ReproDecomposeExact : Pass<"repro-decompose-exact", "::mlir::func::FuncOp"> {
  let summary = "(K4) exact contractions become f64 contractions of integers";
  let description = [{
    A `repro.fold` in the order `#repro.exact` becomes folds for the largest
    magnitudes of its factors, element-wise operations that make integers of the
    factors, and contractions of these in f64, in which every sum is exact, so
    that their order does not matter; with three digits one factor is split in
    two for this. A target with matrix instructions on bytes keeps those that
    are large enough for them.
  }];
  let options = [Option<"keepMatrices", "keep-matrices", "bool",
                        /*default=*/"false",
                        "leave matrix products to the target">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproPlaceParts : Pass<"repro-place-parts", "::mlir::func::FuncOp"> {
  let summary = "compute the parts of a tensor where they end up";
  let description = [{
    `tensor.concat` and `tensor.pad` become insertions into an empty tensor and
    into one of equal elements. Reshapes of such chains go to the parts, a chain
    that is a part of another one goes up in it, equal elements that are half of
    a tensor fill it before the other parts come, and every part is inserted as
    soon as it is there. Where the parts that are left are all reshaped in one
    way, the whole is reshaped instead. Then bufferization lets an operation write its part of
    the whole: the stride phases of a transposed convolution (K2), which concats
    and reshapes interleave, are stored with that stride.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproSinkScalars : Pass<"repro-sink-scalars", "::mlir::func::FuncOp"> {
  let summary = "leave no computation on scalars outside of structured ops";
  let description = [{
    `tensor.extract`, `arith` operations and `cf.assert` between the structured
    operations become rank-0 `linalg.generic`s; a scalar that a structured
    operation captures or takes as an input becomes a rank-0 tensor operand, a
    constant moves into the body. `tensor.splat` and `from_elements` become
    generics. Afterwards structured operations depend on tensors alone.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproFuseElementwise : Pass<"repro-fuse-elementwise", "::mlir::func::FuncOp"> {
  let summary = "fuse element-wise operations without a change of any bit";
  let description = [{
    Element-wise producers fuse into element-wise consumers and into the bodies
    of folds where this saves memory traffic and repeats no expensive work. The
    operations on each element and the order of folds stay what they were.
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproBufferize : Pass<"repro-bufferize", "::mlir::ModuleOp"> {
  let summary = "tensors become buffers of identity layout";
  let description = [{
    One-shot bufferization over function boundaries. Arguments are never
    written: which state is updated in place is decided by
    `repro-plan-buffers`.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect",
                           "::mlir::memref::MemRefDialect"];
}

//===----------------------------------------------------------------------===//
// Schedule, on buffers
//===----------------------------------------------------------------------===//

def ReproOutlineKernels : Pass<"repro-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "each structured operation becomes a kernel function";
  let description = [{
    See "Kernel function" in docs/architecture.md. Equal kernels are shared.
    Checks (`cf.assert`, `repro.scatter`) receive the attribute
    `repro.message = <number> : i64`, their messages are listed in the module
    attribute `repro.messages`.

    With `fuse-rows`, neighbouring operations on the same rows of which one is a
    fold of each row (as in softmax and layer norm) or a product of each (as in
    attention) become one kernel: an
    `scf.forall` over blocks of rows that holds the operations on the slices of
    their buffers. A buffer that nobody else uses shrinks to one block, a
    `memref.alloc` in the loop. Each operation reads the elements it read before.
    Without products, the element-wise one with the most arithmetic prefetches
    (`memref.prefetch`) what later ones and the next block read first.
    The rows of a contraction are the items of its batch (as in attention): one
    whose rows share a factor stays a kernel of its own.

    With `fuse-epilogues`, a contraction without a batch and the element-wise
    operation that alone reads its results (a bias, a residual, ReLU, rounding)
    become one kernel: a `memref.alloca_scope` that holds both and the results,
    a `memref.alloca`, which never reach memory. The loops of the operation are
    the parallel dimensions of the contraction. One with elementary functions,
    with more than 16 operations or 5 other inputs, with results that are no
    floats, or 8 operations and more away stays apart; so does one that would
    make vectors shorter, and what reads whole images beside a convolution.
  }];
  let options = [Option<"fuseRows", "fuse-rows", "bool", /*default=*/"false",
                        "make one kernel of operations on the same rows">,
                 Option<"fuseEpilogues", "fuse-epilogues", "bool",
                        /*default=*/"false",
                        "make one kernel of a contraction and the operation "
                        "on its results">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::ub::UBDialect"];
}

def ReproPlanBuffers : Pass<"repro-plan-buffers", "::mlir::ModuleOp"> {
  let summary = "place all buffers of `main`";
  let description = [{
    Allocations become parts of one arena by their lifetimes; a new state is
    written in place of the old one where nothing reads the old one later and
    no check can still fail (E1), otherwise it is copied at the end. An
    element-wise result takes the buffer of an operand that nobody reads
    afterwards. `main` takes states, inputs, outputs and the arena, and returns
    nothing; its attribute `repro.plan_live_bytes` says how many bytes live at
    once at the most, so that no arena is smaller.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::memref::MemRefDialect"];
}

//===----------------------------------------------------------------------===//
// Arithmetic of expanded kernels
//===----------------------------------------------------------------------===//

def ReproExpandFunctions : Pass<"repro-expand-functions"> {
  let summary = "elementary functions (S5) become arithmetic";
  let description = [{
    Replaces every elementary function of the `repro` dialect, on scalars and on
    vectors, by `arith`, `math.fma`, `math.sqrt` and bit operations that give
    the correctly rounded result of f32. Arguments that need more work (huge angles, results next to a rounding
    boundary) lie behind an `scf.if` on "any lane does". docs/functions.md has
    the method of each function.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def ReproExpandArithmetic : Pass<"repro-expand-arithmetic", "::mlir::ModuleOp"> {
  let summary = "arithmetic whose result LLVM leaves open or to a library";
  let description = [{
    - (I1) integer division and shifts have a result for every operand; divisors
      and shifts by constants in range stay as they are;
    - (S3) conversions of floats to integers saturate, conversions to bf16, f16
      and f8 round once, whatever the source;
    - (S4) the remainder of floats calls `repro_fmod`, which is exact.
  }];
  let options = [
    Option<"hasF16", "has-f16", "bool", /*default=*/"true",
           "the target converts between f16 and f32 itself">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::vector::VectorDialect"];
}

#endif // REPRO_CODEGEN_PASSES_TD
