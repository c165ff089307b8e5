// A fold of rows is cut into rows. (T4) A sum of all elements is cut at chunks, whose results another fold adds.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=tiny-2x2})' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK: func.func private @tile_1(%{{.*}}: memref<1x9000xf32> {{.*}}, %{{.*}}: memref<1xf32> {launch.access = #launch<access read|write>
// CHECK: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>

// The chunks begin with -0, which changes no sum.
// CHECK: func.func private @tile_3(%{{.*}}: memref<1x8192xf32>
// CHECK: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 0, totals = refold>
// CHECK-SAME: repro.init = [-0.000000e+00 : f32]
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: func.func private @tile_4(%{{.*}}: memref<1x3232xf32>
// CHECK: func.func private @tile_5(%{{.*}}: memref<5xf32> {{.*}}, %{{.*}}: memref<f32> {launch.access = #launch<access read|write>
// CHECK: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 0, totals = refold>

// CHECK: cores.plan @main {{.*}} arena(%[[A:.*]]: memref<64xi8>)
// CHECK: %[[ALL:.*]] = launch.view %[[A]][0] : memref<64xi8> to memref<5xf32>

// The core that adds the results waits for the other three.
// CHECK: cores.program at [0, 0]
// CHECK: cores.run @tile_3(
// CHECK: cores.acquire [[COUNTER:[0-9]+]] count 3
// CHECK: cores.copy %[[ALL]] to
// CHECK: cores.run @tile_5(
// CHECK: cores.program at [1, 0]
// CHECK: cores.run @tile_3(
// CHECK: cores.release [[COUNTER]] to {{\[}}[0, 0]]
#x = affine_map<(i, k) -> (i, k)>
#y = affine_map<(i, k) -> (i)>
#all = affine_map<(i, k) -> ()>
func.func @main(%x: tensor<4x9000xf32>, %a: tensor<4xf32>, %b: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) attributes {repro.num_state = 0 : i64} {
  %y = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [#x, #y] iterators [parallel, reduction]
      ins(%x : tensor<4x9000xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%u: f32, %acc: f32):
    %r = arith.addf %acc, %u : f32
    repro.yield %r : f32
  } -> tensor<4xf32>
  %t = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 2, totals = refold>
      maps [#x, #all] iterators [reduction, reduction]
      ins(%x : tensor<4x9000xf32>) outs(%b : tensor<f32>) {
  ^bb0(%u: f32, %acc: f32):
    %s = arith.mulf %u, %u : f32
    %r = arith.addf %acc, %s : f32
    repro.yield %r : f32
  } -> tensor<f32>
  return %y, %t : tensor<4xf32>, tensor<f32>
}
