// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: %repro-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(repro-expand-kernels)"

// expected-error @below {{expected a kernel function that ends with (memref<?xi8>, memref<1xi64>, index, index) and returns nothing, got '(memref<4xf32>, memref<4xf32>) -> ()'}}
func.func private @signature(%a: memref<4xf32>, %b: memref<4xf32>) {
  memref.copy %a, %b : memref<4xf32> to memref<4xf32>
  return
}

// -----

func.func private @shape(%a: memref<?xf32>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected static shapes, strides and offsets, got 'memref<?xf32>'}}
  memref.copy %a, %b : memref<?xf32> to memref<4xf32>
  return
}

// -----

func.func private @two(%a: memref<4xf32>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  memref.copy %a, %b : memref<4xf32> to memref<4xf32>
  // expected-error @below {{expected one structured operation in a kernel function, got another after 'memref.copy'}}
  memref.copy %b, %a : memref<4xf32> to memref<4xf32>
  return
}
