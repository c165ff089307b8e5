// A tensor between two contractions stays in the memories of the cores that compute it.
// DEFINE: %{place} = schedule,repro-map-split{machine=tiny-2x2},repro-map-partition{machine=tiny-2x2},repro-map-tile{machine=tiny-2x2}
// RUN: %repro-opt %s --pass-pipeline='builtin.module(%{place},repro-map-place{machine=tiny-2x2})' -o %t.mlir
// RUN: FileCheck %s --check-prefix=HOME < %t.mlir
// RUN: %repro-opt %s --pass-pipeline='builtin.module(%{place},repro-map-place{machine=tiny-2x2 homes=dram})' | FileCheck %s --check-prefix=DRAM
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=tiny-2x2})' | FileCheck %s
// RUN: sed 's/home = array<i64: -1, -1, [0-9]*>/home = array<i64: -1, -1, 65536>/' %t.mlir | not %repro-opt --pass-pipeline='builtin.module(repro-map-schedule{machine=tiny-2x2})' 2>&1 | FileCheck %s --check-prefix=HIGH
// RUN: sed 's/home = array<i64: -1, -1, [0-9]*>/home = array<i64: 64>/' %t.mlir | not %repro-opt --pass-pipeline='builtin.module(repro-map-schedule{machine=tiny-2x2})' 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not %repro-opt %s --pass-pipeline='builtin.module(%{place},repro-map-place{machine=tiny-2x2 homes=sram})' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: %repro-opt %s --pass-pipeline='builtin.module(schedule,repro-map-partition{machine=tiny-2x2 strategy=batch})' | FileCheck %s --check-prefix=BATCH
// RUN: not %repro-opt %s --pass-pipeline='builtin.module(schedule,repro-map-partition{machine=tiny-2x2 strategy=best})' 2>&1 | FileCheck %s --check-prefix=STRATEGY
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// HOME: launch.dispatch @kernel_0({{.*}}) {cores.home = array<i64: -1, -1, [[ADDRESS:[0-9]+]]>
// HOME: launch.dispatch @kernel_1
// HOME-NOT: cores.home
// DRAM-NOT: cores.home
// HIGH: expected a home of {{[0-9]+}} bytes between byte 64 and {{[0-9]+}} of the memories of cores, got byte 65536
// COUNT: expected 3 numbers in the attribute 'cores.home', which the pass repro-map-place sets
// NAME: expected homes=cores or homes=dram, got homes=sram
// BATCH: cores.partition = array<i64: 4, 1>
// BATCH: cores.partition = array<i64: 4, 1>
// STRATEGY: expected strategy=time or strategy=batch, got strategy=best

// The first launch writes the tensor where it stays. No copy has a side in the arena.
// CHECK: cores.plan @main machine "tiny-2x2" states() inputs(%[[X:.*]]: memref<32x64xf32>, %{{.*}}: memref<64x32xf32>, %{{.*}}: memref<32x32xf32>) outputs(%{{.*}}: memref<32x32xf32>) arena(%[[ARENA:.*]]: memref<{{.*}}xi8>)
// CHECK-NOT: launch.view %[[ARENA]]
// CHECK: cores.program at [0, 0]
// CHECK-NOT: launch.view %[[ARENA]]
// CHECK: cores.release 0
#id = affine_map<(i, j) -> (i, j)>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<32x64xf32>, %w: tensor<64x32xf32>, %v: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {repro.num_state = 0 : i64} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x32xf32>
  %z = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<32x32xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  } -> tensor<32x32xf32>
  %h = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#a, #b, #c] iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<32x64xf32>, tensor<64x32xf32>) outs(%z : tensor<32x32xf32>) {
  ^bb0(%s: f32, %t: f32, %acc: f32):
    %r = math.fma %s, %t, %acc : f32
    repro.yield %r : f32
  } -> tensor<32x32xf32>
  %y = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#a, #b, #c] iterators [parallel, parallel, reduction]
      ins(%h, %v : tensor<32x32xf32>, tensor<32x32xf32>) outs(%z : tensor<32x32xf32>) {
  ^bb0(%s: f32, %t: f32, %acc: f32):
    %r = math.fma %s, %t, %acc : f32
    repro.yield %r : f32
  } -> tensor<32x32xf32>
  return %y : tensor<32x32xf32>
}
