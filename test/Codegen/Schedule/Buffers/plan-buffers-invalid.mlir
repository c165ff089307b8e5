// RUN: %repro-opt %s --split-input-file --verify-diagnostics --repro-plan-buffers
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// expected-error @+1 {{expected a function 'main' of one block}}
module {
  func.func private @main(memref<4xf32>)
}

// -----

// expected-error @+1 {{expected memrefs as arguments and results, got 'f32'}}
func.func @main(%x: memref<4xf32>, %s: f32) -> memref<4xf32> {
  return %x : memref<4xf32>
}
