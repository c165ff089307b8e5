//===- Passes.td - Schedule passes on tensors --------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_SCHEDULE_TENSORS_PASSES_TD
#define REPRO_CODEGEN_SCHEDULE_TENSORS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ReproExpandChecks : Pass<"repro-expand-checks", "::mlir::func::FuncOp"> {
  let summary = "(E1) what can fail becomes an assertion";
  let description = [{
    Each `tensor.extract` and each step of a `repro.random` is checked by a
    `cf.assert` of its own, and the index clamped, so that folding and fusion
    are free to change what becomes of the element and no check goes with it.
    The indices of a `repro.scatter` are checked before it, once where several
    have the same, so that it can write a state in place; from here on it leaves
    out the updates of indices that are out of range.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::cf::ControlFlowDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproDecomposeBlocks : Pass<"repro-decompose-blocks", "::mlir::ModuleOp"> {
  let summary = "(Q1) to (Q4) tensors in blocks become arithmetic of f32 and bytes";
  let description = [{
    `repro.quantize` becomes a fold for the amax of each block, an operation on
    these for the scales, and one on the elements for their codes;
    `repro.dequantize` one on the codes. `repro.block_contraction` gets integers
    in whole blocks, of f8 the codes, and scales of f32; for a target with
    matrix instructions on bytes a single block of integers is filled up to
    their length. Tensors of f6E3M2FN, f6E2M3FN, f4E2M1FN and f8E8M0FNU, of
    arguments and results too, become tensors of bytes, and conversions from and
    to these types integer arithmetic on them.
  }];
  let options = [Option<"fillSteps", "fill-steps", "bool",
                        /*default=*/"false",
                        "fill a single block of integers up to steps of 32">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
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

def ReproInsertSlices : Pass<"repro-insert-slices", "::mlir::func::FuncOp"> {
  let summary = "compute slices of a tensor where they end up";
  let description = [{
    `tensor.concat` and `tensor.pad` become insertions into an empty tensor and
    into one of equal elements. Reshapes of such chains go to the sources, a
    chain that is the source of another one becomes part of it, equal elements
    that are half of a tensor fill it before the other sources are inserted, and
    each source is inserted as soon as it is computed. Where the sources that are
    left are all reshaped in one way, the whole is reshaped instead. Then
    bufferization lets an operation write its slice of the whole: the stride
    phases of a transposed convolution (K2), which concats and reshapes
    interleave, are stored with that stride.
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
    operations on each element and the order of folds stay what they were. A
    barrier on what is cheap to compute moves to what that reads (V5).
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_PASSES_TD
