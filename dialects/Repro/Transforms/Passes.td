//===- Passes.td - Canonical-to-canonical passes -----------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TRANSFORMS_PASSES_TD
#define REPRO_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ReproVerifyCanonical : Pass<"repro-verify-canonical", "::mlir::ModuleOp"> {
  let summary = "accept only what the numerics define";
  let description = [{
    Ends the `canonical` pipeline: an operation, type or attribute whose bits
    docs/numerics.md does not define is an error at its location.
  }];
}

#endif // REPRO_TRANSFORMS_PASSES_TD
