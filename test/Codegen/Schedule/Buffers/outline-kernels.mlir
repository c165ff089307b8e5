// RUN: %repro-opt %s --split-input-file --repro-outline-kernels | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#id = affine_map<(i) -> (i)>

// Equal operations share a kernel, also on parts of buffers.

// CHECK: func.func private @kernel_0(%{{.*}}: memref<4xf32> {launch.access = #launch<access read>}, %{{.*}}: memref<4xf32> {launch.access = #launch<access write>},
// CHECK-SAME: %{{.*}}: memref<?xi8>, %{{.*}}: memref<1xi64>, %{{.*}}: index, %{{.*}}: index)
// CHECK: linalg.generic
// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: memref<4xf32>, %[[Y:.*]]: memref<8xf32>)
// CHECK-NOT: subview
// CHECK: launch.dispatch @kernel_0(%[[X]], %{{.*}}) : memref<4xf32>, memref<4xf32>
// CHECK: %[[PART:.*]] = launch.view %[[Y]][16] : memref<8xf32> to memref<4xf32>
// CHECK: launch.dispatch @kernel_0(%[[PART]], %{{.*}}) : memref<4xf32>, memref<4xf32>
func.func @main(%x: memref<4xf32>, %y: memref<8xf32>) -> memref<4xf32> {
  %part = memref.subview %y[4] [4] [1] : memref<8xf32> to memref<4xf32, strided<[1], offset: 4>>
  %a = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<4xf32>) outs(%a : memref<4xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %b = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%part : memref<4xf32, strided<[1], offset: 4>>) outs(%b : memref<4xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  return %b : memref<4xf32>
}

// -----

// A view of a view begins at the sum of both offsets.
// CHECK-LABEL: func.func @main(%{{.*}}: memref<16xf32>)
// CHECK: launch.view %{{.*}}[20] : memref<16xf32> to memref<2xf32>
func.func @main(%a: memref<16xf32>) -> memref<2xf32> {
  %v = launch.view %a[16] : memref<16xf32> to memref<4xf32>
  %w = memref.subview %v[1] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1], offset: 1>>
  %b = memref.alloc() : memref<2xf32>
  memref.copy %w, %b : memref<2xf32, strided<[1], offset: 1>> to memref<2xf32>
  return %b : memref<2xf32>
}

// -----

// Folds that differ only in constant indices share a kernel.
// CHECK: #[[AT_ZERO:.*]] = affine_map<(d0) -> (d0, 0)>
// CHECK: func.func private @kernel_0(%[[TAPS:.*]]: memref<3x1xf32, strided<[2, 1]>> {launch.access
// CHECK: repro.fold
// CHECK-SAME: maps [#[[AT_ZERO]],
// CHECK-SAME: ins(%[[TAPS]] :
// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[Y:.*]]: memref<3x2xf32>)
// CHECK: %[[FIRST:.*]] = launch.view %[[Y]][0] : memref<3x2xf32> to memref<3x1xf32, strided<[2, 1]>>
// CHECK: launch.dispatch @kernel_0(%[[FIRST]],
// CHECK: %[[SECOND:.*]] = launch.view %[[Y]][4] : memref<3x2xf32> to memref<3x1xf32, strided<[2, 1]>>
// CHECK: launch.dispatch @kernel_0(%[[SECOND]],
func.func @main(%y: memref<3x2xf32>) -> (memref<f32>, memref<f32>) {
  %a = memref.alloc() : memref<f32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(i) -> (i, 0)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%y : memref<3x2xf32>) outs(%a : memref<f32>) {
  ^bb0(%u: f32, %acc: f32):
    %r = arith.addf %acc, %u : f32
    repro.yield %r : f32
  }
  %b = memref.alloc() : memref<f32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(i) -> (i, 1)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%y : memref<3x2xf32>) outs(%b : memref<f32>) {
  ^bb0(%u: f32, %acc: f32):
    %r = arith.addf %acc, %u : f32
    repro.yield %r : f32
  }
  return %a, %b : memref<f32>, memref<f32>
}
