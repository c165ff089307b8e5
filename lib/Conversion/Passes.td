//===- Passes.td - Conversions to and from the repro dialect -*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CONVERSION_PASSES_TD
#define REPRO_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

class Repro_Import<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::repro::ReproDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

def ConvertLinalgToRepro : Repro_Import<"convert-linalg-to-repro"> {
  let summary = "convert reductions to repro.fold";
  let description = [{
    Converts every reduction of `linalg` to a `repro.fold`, in these steps:

    - Named operations become `linalg.generic`.
    - Unused results are removed from reductions with several results, which have
      no order yet (F6). An arg-max or arg-min becomes `repro.arg_reduce` (D2).
    - A `linalg.generic` with reduction iterators becomes a `repro.fold`. Its
      step is recognised (K1), and its accumulator is widened (F7).
    - A `tensor.empty` that is read becomes zeros (F6).
    - A result dimension that is indexed by a constant zero is removed from the
      fold and restored by `tensor.expand_shape`.
  }];
}

def ConvertMathToRepro : Repro_Import<"convert-math-to-repro"> {
  let summary = "convert elementary functions to repro, and remove flags";
  let description = [{
    Converts scalar arithmetic to operations whose every bit is defined:

    - (S5) Every `math` operation that is not exact becomes the `repro` function
      of the same name, before a folder can evaluate it by the compiler's libm.
      An operation on f64 that (S5) does not define for f64, or an operation that
      is not on the list, is an error at its location.
    - (S2) Maximum and minimum that prefer numbers to NaN become compare and
      select.
    - Fast-math flags (V3) and flags for overflow, exactness and sign (V1) are
      removed: without them every operation has a value.
    - (I1) Integer divisions with a rounding mode are expanded.
    - (Q1) Scaling by an f8E8M0FNU becomes a product or a quotient in f32.
    - (V4) A bitcast of a float reads the canonical NaN.
    - Constants that are resources become literals.
  }];
}

def ConvertTMTensorToRepro : Repro_Import<"convert-tm-tensor-to-repro"> {
  let summary = "convert torch-mlir's scatter, scan and sort to repro operations";
  let description = [{
    Converts `tm_tensor.scatter` to `repro.scatter` (D1), `tm_tensor.scan` to
    `repro.scan` (D3), and `tm_tensor.sort` and `tm_tensor.topk` to `repro.sort`
    (D2). The `tm_tensor` dialect is not registered, so its operations have the
    generic syntax.
  }];
}

def ConvertTosaToRepro : Repro_Import<"convert-tosa-to-repro"> {
  let summary = "convert TOSA operations that upstream does not lower correctly";
  let description = [{
    Converts the TOSA operations that upstream does not lower, or lowers with a
    wrong result:

    - `tosa.scatter` becomes `repro.scatter replace` (D1): row w of batch n goes
      to position `indices[n, w]` of the batch. An index out of range is an
      error of the step (E1). If indices are equal, which TOSA does not allow,
      the last one wins.
    - `tosa.fft2d` and `tosa.rfft2d` become sums of products with sines and
      cosines. Their zeros at multiples of a quarter turn are exact, because
      extents are powers of two and f32 represents each angle exactly as a
      fraction of a turn.
    - `tosa.transpose_conv2d` of floats becomes a `repro.convolution` (K2).
    - The condition of `tosa.cond_if` and `tosa.while_loop` is reshaped to rank
      0, because upstream extracts the element of a tensor of rank 0.
  }];
}

#endif // REPRO_CONVERSION_PASSES_TD
