// An element-wise operation that looks up elements: the table's column is that of the result.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(schedule,repro-map-partition{machine=tiny-2x2})' -o %t.mlir
// RUN: sed '/@kernel_0/s/cores.partition = array<i64: [0-9]*, [0-9]*>/cores.partition = array<i64: 1, 2>/' %t.mlir | %repro-opt --pass-pipeline='builtin.module(repro-map-tile{machine=tiny-2x2},repro-map-place{machine=tiny-2x2},repro-map-schedule{machine=tiny-2x2},repro-verify-cores,repro-verify-core-mapping)' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK: func.func private @tile_0(%{{.*}}: memref<3xi64> {{.*}}, %{{.*}}: memref<3x2xf32> {{.*}}, %[[TABLE:.*]]: memref<16x2xf32>
// CHECK: %[[J:.*]] = linalg.index 1 : index
// CHECK: memref.load %[[TABLE]][%{{.*}}, %[[J]]] : memref<16x2xf32>
// CHECK: cores.plan @main {{.*}} inputs(%[[T:.*]]: memref<16x4xf32>
// CHECK: launch.view %[[T]][8] : memref<16x4xf32> to memref<16x2xf32, strided<[4, 1]>>
// The two cores with columns of their own make all checks.
// CHECK: cores.program at [0, 0]
// CHECK: cores.acquire [[CHECKS:[0-9]+]] count 1
// CHECK: cores.check %{{.*}} : memref<2xi64, #cores.memory<local>>
// CHECK: cores.program at [1, 1]
// CHECK: cores.acquire [[CHECKS]] count 2
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @main(%s: tensor<6x4xf32> {repro.name = "s"}, %t: tensor<16x4xf32>, %i: tensor<6xi64>) -> tensor<6x4xf32> attributes {repro.num_state = 1 : i64} {
  %e = tensor.empty() : tensor<6x4xf32>
  %y = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<6xi64>) outs(%e : tensor<6x4xf32>) {
  ^bb0(%k: i64, %o: f32):
    %p = arith.index_cast %k : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %t[%p, %j] : tensor<16x4xf32>
    linalg.yield %v : f32
  } -> tensor<6x4xf32>
  return %y : tensor<6x4xf32>
}
