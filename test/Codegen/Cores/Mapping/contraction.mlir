// A contraction: pieces and tiles of both parallel loops; the next tile's inputs are copied while a tile runs.
// Without multicasts, each core copies its own boxes.
// RUN: echo '{"kind": "cores", "extends": "tiny-2x2", "network": {"multicast": {"value": false, "source": "test"}}}' > %t.json
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=%t.json})' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-DAG: #[[A:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[B:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG: #[[C:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>

// All tiles share one function.
// CHECK: func.func private @tile_0(%{{.*}}: memref<4x16xf32> {{.*}}, %{{.*}}: memref<16x2xf32> {{.*}}, %{{.*}}: memref<4x2xf32>
// An fma takes a cycle. It loads each element of X for 2 of them and each of W for 4, and a loop takes 2 cycles for 8:
// 128 * (1 + 1 / 2 + 1 / 4 + 2 / 8) + 8 to store the results.
// CHECK-SAME: cores.cycles = 264
// CHECK: repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#[[A]], #[[B]], #[[C]]]
// CHECK-NOT: @tile_1

// CHECK: cores.plan @main machine "{{.*}}" states() inputs(%[[X:.*]]: memref<8x16xf32>, %[[W:.*]]: memref<16x12xf32>) outputs(%[[Y:.*]]: memref<8x12xf32>)
// CHECK: %[[X0:.*]] = launch.view %[[X]][0] : {{.*}} to memref<4x16xf32>
// CHECK: %[[W0:.*]] = launch.view %[[W]][0] : {{.*}} to memref<16x2xf32, strided<[12, 1]>>
// CHECK: %[[W1:.*]] = launch.view %[[W]][8] : {{.*}} to memref<16x2xf32, strided<[12, 1]>>
// CHECK: %[[Y0:.*]] = launch.view %[[Y]][0] : {{.*}} to memref<4x2xf32, strided<[12, 1]>>

// CHECK: cores.program at [0, 0] scratch [65472, 0] error 65472 {
// CHECK: %[[LX:.*]] = launch.view %{{.*}}[0] : {{.*}} to memref<4x16xf32, #cores.memory<local>>
// CHECK-NEXT: %[[CX:.*]] = cores.copy %[[X0]] to %[[LX]]
// CHECK-NEXT: %[[LW:.*]] = launch.view
// CHECK-NEXT: %[[CW:.*]] = cores.copy %[[W0]] to %[[LW]]
// The second slot of the columns; the rows stay.
// CHECK-NEXT: %[[LW1:.*]] = launch.view
// CHECK-NEXT: %[[CW1:.*]] = cores.copy %[[W1]] to %[[LW1]]
// CHECK-NEXT: cores.wait %[[CX]]
// CHECK-NEXT: cores.wait %[[CW]]
// CHECK-NEXT: %[[LY:.*]] = launch.view
// CHECK-NEXT: cores.run @tile_0(read %[[LX]], read %[[LW]], write %[[LY]])
// CHECK-NEXT: %[[CY:.*]] = cores.copy %[[LY]] to %[[Y0]]
// CHECK: cores.wait %[[CW1]]
// CHECK: cores.run @tile_0(read %[[LX]], read %[[LW1]], write
// CHECK: cores.program at [1, 0]
// CHECK: cores.program at [1, 1]
// CHECK: cores.program at [0, 1]
// CHECK-NOT: cores.acquire
#id = affine_map<(i, j) -> (i, j)>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x12xf32>) -> tensor<8x12xf32> attributes {repro.num_state = 0 : i64} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x12xf32>
  %z = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<8x12xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  } -> tensor<8x12xf32>
  %y = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#a, #b, #c] iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<8x16xf32>, tensor<16x12xf32>) outs(%z : tensor<8x12xf32>) {
  ^bb0(%u: f32, %v: f32, %acc: f32):
    %r = math.fma %u, %v, %acc : f32
    repro.yield %r : f32
  } -> tensor<8x12xf32>
  return %y : tensor<8x12xf32>
}
