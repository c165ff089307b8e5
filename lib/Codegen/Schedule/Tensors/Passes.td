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
  let summary = "(E1) expand the checks of operations that can fail to assertions";
  let description = [{
    Inserts a `cf.assert` for the index of each `tensor.extract` and for the step
    of each `repro.random`, and clamps the index. Afterwards folding and fusion
    may remove or change the use of an element without removing its check. The
    indices of a `repro.scatter` are checked before it, so that it can write a
    state in place; scatters with the same indices share one check. After this
    pass a `repro.scatter` ignores the updates of indices that are out of range.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::cf::ControlFlowDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproDecomposeBlocks : Pass<"repro-decompose-blocks", "::mlir::ModuleOp"> {
  let summary = "(Q1) to (Q4) decompose quantized tensors to arithmetic of f32 and bytes";
  let description = [{
    Decomposes the operations on quantized tensors to arithmetic of f32 and bytes.
    `repro.quantize` becomes a fold for the amax of each block, an element-wise
    operation that computes the scales from it, and an element-wise operation
    that computes the codes. `repro.dequantize` becomes an element-wise operation
    on the codes. The codes of `repro.block_contraction` become integers (codes
    of f8 stay), padded to whole blocks, and its scales become f32. For a target
    with matrix instructions on bytes, a single block of integers is padded to
    the length of these instructions. Tensors of f6E3M2FN, f6E2M3FN, f4E2M1FN and
    f8E8M0FNU, arguments and results included, become tensors of bytes, and
    conversions from and to these types become integer arithmetic on bytes.
  }];
  let options = [Option<"fillSteps", "fill-steps", "bool",
                        /*default=*/"false",
                        "pad a single block of integers to a multiple of 32">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproDecomposeRandom : Pass<"repro-decompose-random", "::mlir::func::FuncOp"> {
  let summary = "decompose random numbers to integer arithmetic";
  let description = [{
    Replaces each `repro.random` by a `linalg.generic` that computes Philox4x32-10
    (R1) and the distribution (R2) from `linalg.index`, so that it fuses like any
    other element-wise operation.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect"];
}

def ReproDecomposeExact : Pass<"repro-decompose-exact", "::mlir::func::FuncOp"> {
  let summary = "(K4) decompose exact contractions to f64 contractions of integers";
  let description = [{
    Replaces each `repro.fold` in the order `#repro.exact` by folds that compute
    the largest magnitudes of its factors, element-wise operations that convert
    the factors to integers, and contractions of these integers in f64. Every sum
    of these contractions is exact, so their order does not matter; with three
    digits, one factor is split in two to achieve this. For a target with matrix
    instructions on bytes, folds that are large enough for these instructions
    stay. For a target that multiplies bytes otherwise, a fold adds the products of
    the integers' bytes in i64.
  }];
  let options = [Option<"keepMatrices", "keep-matrices", "bool",
                        /*default=*/"false",
                        "keep large matrix products, which the target computes itself">,
                 Option<"sumBytes", "sum-bytes", "bool", /*default=*/"false",
                        "add products of bytes, for a target that multiplies bytes">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproInsertSlices : Pass<"repro-insert-slices", "::mlir::func::FuncOp"> {
  let summary = "compute slices directly in the tensor that contains them";
  let description = [{
    Replaces `tensor.concat` and `tensor.pad` by chains of insertions, so that
    after bufferization an operation writes its slice of the whole tensor. For
    example, the stride phases of a transposed convolution (K2), which concats
    and reshapes interleave, are stored with that stride.

    A chain begins with an empty tensor for `tensor.concat` and with a tensor of
    equal elements for `tensor.pad`. The pass simplifies chains:

    - reshapes of a chain move to its sources;
    - a chain that is the source of another chain becomes part of it;
    - equal elements that are half of a tensor fill the tensor before the other
      sources are inserted;
    - each source is inserted as soon as it is computed;
    - if the remaining sources all have the same reshape, the whole tensor is
      reshaped instead.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproSinkScalars : Pass<"repro-sink-scalars", "::mlir::func::FuncOp"> {
  let summary = "move computations on scalars into structured operations";
  let description = [{
    Moves all computation on scalars into structured operations, which afterwards
    depend only on tensors. `tensor.extract`, `arith` operations and `cf.assert`
    between the structured operations become `linalg.generic`s of rank 0. A
    scalar that a structured operation captures or has as an input becomes a
    tensor operand of rank 0; a constant moves into the body. `tensor.splat` and
    `tensor.from_elements` become `linalg.generic`s.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ReproFuseElementwise : Pass<"repro-fuse-elementwise", "::mlir::func::FuncOp"> {
  let summary = "fuse element-wise operations without a change of any bit";
  let description = [{
    Fuses element-wise producers into element-wise consumers and into the bodies
    of folds if this saves memory traffic and repeats no expensive computation.
    The operations on each element and the orders of folds do not change. A
    barrier on a value that is cheap to compute moves to the operands of this
    computation (V5).
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // REPRO_CODEGEN_SCHEDULE_TENSORS_PASSES_TD
