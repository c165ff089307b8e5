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
  let summary = "every reduction becomes a repro.fold";
  let description = [{
    - Named operations become `linalg.generic`.
    - Results that nobody uses leave multi-result reductions, which have no
      order yet (F6); an arg-max or arg-min becomes `repro.arg_reduce` (D2).
    - A `linalg.generic` with reduction iterators becomes a `repro.fold`: its
      step is recognised (K1), its accumulator is widened (F7).
    - A `tensor.empty` that is read becomes zeros (F6).
    - A result that is indexed by a constant zero gets its unit dimension back
      by `tensor.expand_shape`.
  }];
}

def ConvertMathToRepro : Repro_Import<"convert-math-to-repro"> {
  let summary = "elementary functions become repro functions, flags are dropped";
  let description = [{
    (S5) Every `math` operation outside of the exact ones becomes the `repro`
    function of the same name, before any folder can evaluate it by the
    compiler's libm; one of f64, or one not on the list, is an error at its
    location. (S2) Number-preferring maximum and minimum become compare and
    select. (V3) fast-math flags, (V1) overflow, exactness and sign flags are
    dropped: without them every operation has a value. (I1) the rounding
    divisions are written out. (Q1) What is scaled by an f8E8M0FNU becomes a
    product or a quotient in f32. (V4) a bitcast of a float sees the
    canonical NaN. A constant that is a resource is written out.
  }];
}

def ConvertTMTensorToRepro : Repro_Import<"convert-tm-tensor-to-repro"> {
  let summary = "torch-mlir's scatter, scan and sort become repro operations";
  let description = [{
    The `tm_tensor` dialect is not registered: its operations arrive in generic
    form. `tm_tensor.scatter` becomes `repro.scatter` (D1), `tm_tensor.scan`
    `repro.scan` (D3), `tm_tensor.sort` and `tm_tensor.topk` `repro.sort` (D2).
  }];
}

def ConvertTosaToRepro : Repro_Import<"convert-tosa-to-repro"> {
  let summary = "what upstream does not lower of TOSA, or not rightly";
  let description = [{
    - `tosa.scatter` becomes `repro.scatter replace` (D1): row w of batch n goes
      to position `indices[n, w]` of the batch. An index out of range is an
      error of the step (E1); of equal indices, which TOSA does not allow, the
      last one wins.
    - `tosa.fft2d` and `tosa.rfft2d` become sums of products with sines and
      cosines, whose zeros at multiples of a quarter turn are exact: an angle is
      a fraction of powers of two of a turn, which f32 holds exactly.
    - `tosa.transpose_conv2d` of floats becomes a `repro.convolution` (K2).
    - The condition of `tosa.cond_if` and `tosa.while_loop` gets rank 0, of
      which upstream reads the element.
  }];
}

#endif // REPRO_CONVERSION_PASSES_TD
