// RUN: %repro-opt %s --split-input-file --verify-diagnostics --repro-outline-kernels
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#id = affine_map<(i) -> (i)>

func.func @main(%x: memref<?xf32>) -> memref<?xf32> {
  // expected-error @+1 {{expected buffers of numbers of static shape, strides and offset, got 'memref<?xf32>'}}
  linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%x : memref<?xf32>) {
  ^bb0(%o: f32):
    linalg.yield %o : f32
  }
  return %x : memref<?xf32>
}

// -----

#id = affine_map<(i) -> (i)>

func.func @main(%x: memref<4xf32>, %s: f32) -> memref<4xf32> {
  // expected-error @+1 {{expected a kernel that depends only on buffers and constants, but the kernel uses a value of type 'f32'}}
  linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%x : memref<4xf32>) {
  ^bb0(%o: f32):
    linalg.yield %s : f32
  }
  return %x : memref<4xf32>
}

// -----

func.func @main(%x: memref<4xf32>) -> memref<4xf32> {
  %c0 = arith.constant 0 : index
  %v = arith.constant 1.0 : f32
  // expected-error @+1 {{expected only structured operations on buffers}}
  memref.store %v, %x[%c0] : memref<4xf32>
  return %x : memref<4xf32>
}

// -----

func.func @main(%x: memref<4xf32>) -> memref<4xf32> {
  %v = arith.constant 1.0 : f32
  // expected-error @+1 {{expected only structured operations on buffers}}
  linalg.fill ins(%v : f32) outs(%x : memref<4xf32>)
  return %x : memref<4xf32>
}

// -----

// expected-error @+1 {{expected a function 'main' of one block}}
module {
}

// -----

func.func @main(%x: memref<4xi1>) -> memref<4xi1> {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%x : memref<4xi1>) {
  ^bb0(%ok: i1):
    // expected-error @+1 {{expected the number of its message, which repro-number-checks gives it}}
    cf.assert %ok, "no good"
    linalg.yield %ok : i1
  }
  return %x : memref<4xi1>
}

// -----

func.func @main(%a: memref<64xi8>) -> memref<4xf32> {
  %c = arith.constant 16 : index
  %v = memref.view %a[%c][] : memref<64xi8> to memref<4xf32>
  %b = memref.alloc() : memref<4xf32>
  // expected-error @+1 {{expected buffers of numbers of static shape, strides and offset, got 'memref<4xf32>'}}
  memref.copy %v, %b : memref<4xf32> to memref<4xf32>
  return %b : memref<4xf32>
}

// -----

func.func @main(%x: memref<4xf32>) -> memref<4xf32> {
  %v = memref.reinterpret_cast %x to offset: [4611686018427387904], sizes: [4], strides: [1] : memref<4xf32> to memref<4xf32, strided<[1], offset: 4611686018427387904>>
  %b = memref.alloc() : memref<4xf32>
  // expected-error @+1 {{expected buffers of numbers of static shape, strides and offset}}
  memref.copy %v, %b : memref<4xf32, strided<[1], offset: 4611686018427387904>> to memref<4xf32>
  return %b : memref<4xf32>
}

// -----

// An empty buffer whose strides do not fit into 63 bits.
func.func @main(%x: memref<0x4611686018427387904x4xf32>) -> memref<0x4611686018427387904x4xf32> {
  %b = memref.alloc() : memref<0x4611686018427387904x4xf32>
  // expected-error @+1 {{expected buffers of fewer than 2^63 elements, also where extents of 0 count as 1, got 'memref<0x4611686018427387904x4xf32>'}}
  memref.copy %x, %b : memref<0x4611686018427387904x4xf32> to memref<0x4611686018427387904x4xf32>
  return %b : memref<0x4611686018427387904x4xf32>
}

// -----

func.func @main(%x: memref<4x2305843009213693952x0xf32>) -> memref<4x2305843009213693952x0xf32> {
  %b = memref.alloc() : memref<4x2305843009213693952x0xf32>
  // expected-error @+1 {{expected buffers of fewer than 2^63 elements, also where extents of 0 count as 1}}
  memref.copy %x, %b : memref<4x2305843009213693952x0xf32> to memref<4x2305843009213693952x0xf32>
  return %b : memref<4x2305843009213693952x0xf32>
}
