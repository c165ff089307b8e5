// RUN: %repro-opt %s --split-input-file --verify-diagnostics --repro-plan-buffers
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// expected-error @+1 {{expected a function 'main' of one block that returns}}
module {
  func.func private @main(memref<4xf32>)
}

// -----

// expected-error @+1 {{expected memrefs of numbers and of static shape as arguments and results, got 'f32'}}
func.func @main(%x: memref<4xf32>, %s: f32) -> memref<4xf32> {
  return %x : memref<4xf32>
}

// -----

// expected-error @+1 {{expected launch.access of argument 0}}
func.func private @copy(memref<4xf32>, memref<?xi8>, memref<1xi64>, index, index)

func.func @main(%x: memref<4xf32>) -> memref<4xf32> {
  launch.dispatch @copy(%x) : memref<4xf32>
  return %x : memref<4xf32>
}

// -----

// expected-error @+1 {{expected memrefs of numbers and of static shape as arguments and results, got 'memref<?xf32>'}}
func.func @main(%x: memref<?xf32>) -> memref<?xf32> {
  return %x : memref<?xf32>
}

// -----

// expected-error @+1 {{expected memrefs of numbers and of static shape as arguments and results, got 'memref<4294967296x4294967296xf32>'}}
func.func @main(%x: memref<4294967296x4294967296xf32>) {
  return
}
