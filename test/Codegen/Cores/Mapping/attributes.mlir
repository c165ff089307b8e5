// The passes of the mapping one by one: each decision is an attribute of the launch, which repro-map-schedule reads.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(schedule,repro-map-matrix{machine=tiny-2x2},repro-map-split{machine=tiny-2x2},repro-map-partition{machine=tiny-2x2},repro-map-tile{machine=tiny-2x2},repro-map-place{machine=tiny-2x2})' -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: %repro-opt %t.mlir --pass-pipeline='builtin.module(repro-map-schedule{machine=tiny-2x2},repro-verify-cores,repro-verify-core-mapping)' | FileCheck %s --check-prefix=PLAN
// RUN: sed 's/cores.place = array<i64: 0, 1, 3, 2>/cores.place = array<i64: 0, 1, 1, 2>/' %t.mlir > %t.twice.mlir
// RUN: not %repro-opt %t.twice.mlir --repro-map-schedule=machine=tiny-2x2 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: sed 's/cores.partition = array<i64: 1, 4>/cores.partition = array<i64: 0, 4>/' %t.mlir > %t.none.mlir
// RUN: not %repro-opt %t.none.mlir --repro-map-place=machine=tiny-2x2 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not %repro-opt %t.mlir --repro-map-place=machine=cortex-m4f 2>&1 | FileCheck %s --check-prefix=DRAM
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK: launch.dispatch @kernel_0({{.*}}) {cores.multicast = array<i64: 0>, cores.partition = array<i64: 1, 4>, cores.place = array<i64: 0, 1, 3, 2>, cores.tile = array<i64: 4, 3>}

// PLAN: cores.program at [0, 0]
// PLAN: cores.program at [1, 0]
// PLAN: cores.program at [1, 1]
// PLAN: cores.program at [0, 1]

// TWICE: error: 'launch.dispatch' op expected pieces on different cores
// NONE: error: 'launch.dispatch' op expected pieces along each axis
// DRAM: error: expected a machine with DRAM, got 'cortex-m4f'
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
