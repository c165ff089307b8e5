// A convolution: the boxes of the input overlap (halo), and the fold's initial values are copied by other pieces.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=tiny-2x2})' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-DAG: #[[X:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1 + d3, d2 + d4)>
// CHECK: func.func private @tile_1(%{{.*}}: memref<1x6x4xf32> {{.*}}, %{{.*}}: memref<3x3xf32> {{.*}}, %{{.*}}: memref<1x4x2xf32> {launch.access = #launch<access read|write>
// CHECK: repro.fold {{.*}} maps [#[[X]],

// CHECK: cores.plan @main {{.*}} inputs(%[[X:.*]]: memref<2x10x10xf32>, %{{.*}}: memref<3x3xf32>, %{{.*}}: memref<2x8x8xf32>) outputs(%[[Y:.*]]: memref<2x8x8xf32>)
// CHECK: %[[X0:.*]] = launch.view %[[X]][0] : memref<2x10x10xf32> to memref<1x6x4xf32, strided<[100, 10, 1]>>
// CHECK: %[[X1:.*]] = launch.view %[[X]][160] : memref<2x10x10xf32> to memref<1x6x4xf32, strided<[100, 10, 1]>>
// The next piece begins two columns later, within the box of the first piece.
// CHECK: launch.view %[[X]][8] : memref<2x10x10xf32> to memref<1x6x4xf32, strided<[100, 10, 1]>>

// CHECK: cores.program at [0, 0]
// CHECK: cores.run @tile_0(
// CHECK: cores.copy %[[X0]] to
// CHECK: cores.copy %[[X1]] to
// CHECK: cores.run @tile_1(read %{{.*}}, read %{{.*}}, read|write
#x = affine_map<(b, i, j, r, s) -> (b, i + r, j + s)>
#w = affine_map<(b, i, j, r, s) -> (r, s)>
#y = affine_map<(b, i, j, r, s) -> (b, i, j)>
func.func @main(%x: tensor<2x10x10xf32>, %w: tensor<3x3xf32>, %init: tensor<2x8x8xf32>) -> tensor<2x8x8xf32> attributes {repro.num_state = 0 : i64} {
  %y = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#x, #w, #y] iterators [parallel, parallel, parallel, reduction, reduction]
      ins(%x, %w : tensor<2x10x10xf32>, tensor<3x3xf32>) outs(%init : tensor<2x8x8xf32>) {
  ^bb0(%u: f32, %v: f32, %acc: f32):
    %r = math.fma %u, %v, %acc : f32
    repro.yield %r : f32
  } -> tensor<2x8x8xf32>
  return %y : tensor<2x8x8xf32>
}
