// Alone, the product is cut along its columns. The sums of its rows follow, so all partitions cut the rows: each core has
// the rows that it adds, and no core copies from another one.
// DEFINE: %{partition} = schedule,repro-map-split,repro-map-partition{machine=tiny-2x2}
// RUN: %repro-opt %s --pass-pipeline='builtin.module(%{partition})' -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: %repro-opt %s --pass-pipeline='builtin.module(%{partition})' | diff %t.mlir -
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=tiny-2x2})' | FileCheck %s --check-prefix=PLAN
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: launch.plan @main
// CHECK: launch.dispatch @{{.*}} {cores.partition = array<i64: 4, 1>}
// CHECK: launch.dispatch @{{.*}} {cores.partition = array<i64: 4>}
// CHECK-NOT: launch.dispatch

// PLAN-LABEL: cores.plan @main
// PLAN-NOT: cores.remote

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<32x64xf32>, %w: tensor<64x32xf32>) -> tensor<32xf32> attributes {repro.num_state = 0 : i64} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x32xf32>
  %z = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<32x32xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  } -> tensor<32x32xf32>
  %f = tensor.empty() : tensor<32xf32>
  %zeros = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%f : tensor<32xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  } -> tensor<32xf32>
  %h = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#a, #b, #c] iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<32x64xf32>, tensor<64x32xf32>) outs(%z : tensor<32x32xf32>) {
  ^bb0(%s: f32, %t: f32, %acc: f32):
    %r = math.fma %s, %t, %acc : f32
    repro.yield %r : f32
  } -> tensor<32x32xf32>
  %y = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [#id, #row] iterators [parallel, reduction]
      ins(%h : tensor<32x32xf32>) outs(%zeros : tensor<32xf32>) {
  ^bb0(%s: f32, %acc: f32):
    %r = arith.addf %acc, %s : f32
    repro.yield %r : f32
  } -> tensor<32xf32>
  return %y : tensor<32xf32>
}
