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

// -----

func.func private @nested(%a: memref<4xf32>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected a loop over blocks of rows from 0 to a constant, without results}}
  scf.forall (%i, %j) in (2, 2) {
  }
  return
}

// -----

func.func private @block(%a: memref<4xf32>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  scf.forall (%i) in (2) {
    // expected-error @below {{expected a block of static size and rank 1, got 'memref<2x2xf32>'}}
    %block = memref.alloc() : memref<2x2xf32>
  }
  return
}

// -----

func.func private @other(%a: memref<4xf32>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  scf.forall (%i) in (2) {
    // expected-error @below {{expected linalg.generic, repro.fold and memref.alloc in a loop over blocks of rows, got 'memref.copy'}}
    memref.copy %a, %b : memref<4xf32> to memref<4xf32>
  }
  return
}

// -----

func.func private @offset(%a: memref<4xf32, strided<[1], offset: ?>>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected static shapes, strides and offsets, got 'memref<4xf32, strided<[1], offset: ?>>'}}
  memref.copy %a, %b : memref<4xf32, strided<[1], offset: ?>> to memref<4xf32>
  return
}

// -----

func.func private @bound(%a: memref<4xf32>, %n: index, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected a loop over blocks of rows from 0 to a constant, without results}}
  scf.forall (%i) in (%n) {
  }
  return
}
