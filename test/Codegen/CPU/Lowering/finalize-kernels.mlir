// RUN: %repro-opt %s --repro-finalize-kernels | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Scratch memory gets the size that the expansion computed, or none. Kernels are public because the executor calls
// them by address.

// CHECK: func.func @scratch(%{{.*}}: memref<4xf32>, %[[S:.*]]: memref<256xi8>, %{{.*}}: memref<1xi64>, %{{.*}}: index, %{{.*}}: index)
// CHECK: %[[CAST:.*]] = memref.cast %[[S]] : memref<256xi8> to memref<?xi8>
// CHECK: memref.view %[[CAST]]
func.func private @scratch(%a: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index)
    attributes {launch.work = #launch.work<items = 1, grain = 1, scratch_bytes = 256>} {
  %at = arith.constant 0 : index
  %view = memref.view %scratch[%at][] : memref<?xi8> to memref<64xf32>
  %x = memref.load %view[%begin] : memref<64xf32>
  memref.store %x, %a[%begin] : memref<4xf32>
  return
}

// CHECK: func.func @none(%{{.*}}: memref<4xf32>, %{{.*}}: memref<0xi8>
func.func private @none(%a: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index)
    attributes {launch.work = #launch.work<items = 1, grain = 1, scratch_bytes = 0>} {
  return
}

// A buffer without elements gets rank 1, since LLVM's lowering has no bare pointer for a stride of 0.
// CHECK: func.func @empty(%[[X:.*]]: memref<0xi32>, %{{.*}}: memref<0xi8>
// CHECK: %[[SHAPED:.*]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [4, 0], strides: [1, 1] : memref<0xi32> to memref<4x0xi32>
// CHECK: memref.dim %[[SHAPED]]
func.func private @empty(%x: memref<4x0xi32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index)
    attributes {launch.work = #launch.work<items = 1, grain = 1, scratch_bytes = 0>} {
  %size = memref.dim %x, %begin : memref<4x0xi32>
  return
}

// A function without these arguments is not a kernel.
// CHECK: func.func private @routine(f64) -> f64
func.func private @routine(f64) -> f64
