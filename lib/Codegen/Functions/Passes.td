//===- Passes.td - Passes of elementary functions ----------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_FUNCTIONS_PASSES_TD
#define REPRO_CODEGEN_FUNCTIONS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ReproExpandFunctions : Pass<"repro-expand-functions"> {
  let summary = "expand elementary functions (S5) to arithmetic";
  let description = [{
    Replaces every elementary function of the `repro` dialect, on scalars and on
    vectors, by `arith`, `math.fma`, `math.sqrt` and bit operations that compute
    the correctly rounded result; functions of f64 become integer arithmetic.
    Arguments that need more work (huge angles, results next to a rounding
    boundary) are handled in an `scf.if` that runs if any lane has such an
    argument. docs/reference/functions.md describes the method of each function.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

#endif // REPRO_CODEGEN_FUNCTIONS_PASSES_TD
