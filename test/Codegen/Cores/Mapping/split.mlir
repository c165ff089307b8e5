// (T4) Folds whose launches become faster are cut at chunks; the loop over chunks is parallel.
// DEFINE: %{split} = schedule,repro-map-split
// RUN: %repro-opt %s --pass-pipeline='builtin.module(%{split}{machine=tiny-2x2})' | FileCheck %s
// RUN: %repro-opt %s --pass-pipeline='builtin.module(%{split}{machine=tiny-2x2 cuts=fit})' | FileCheck %s --check-prefix=NONE
// RUN: not %repro-opt %s --pass-pipeline='builtin.module(%{split}{machine=tiny-2x2 cuts=some})' 2>&1 | FileCheck %s --check-prefix=NAME
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// NAME: expected cuts=gain, cuts=all or cuts=fit, got cuts=some
// NONE-NOT: @split

// A product with two full chunks and a shorter one. A constant init is combined with the totals.
// CHECK: func.func private @[[CHUNKS:split_.*_chunks]](%{{.*}}: memref<2x512x3xf32> {{.*}}, %{{.*}}: memref<2x512x5xf32> {{.*}}, %{{.*}}: memref<2x3x5xf32> {launch.access = #launch<access write>
// CHECK-NEXT: repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
// CHECK-SAME: iterators [parallel, parallel, parallel, reduction]
// CHECK-SAME: repro.init = [-0.000000e+00 : f32]
// CHECK: math.fma
// CHECK: func.func private @[[LAST:split_.*_last_chunk]](%{{.*}}: memref<1x76x3xf32>
// CHECK: func.func private @[[TOTALS:split_.*_totals]](%{{.*}}: memref<3x3x5xf32> {{.*}}, %{{.*}}: memref<3x5xf32> {launch.access = #launch<access write>
// CHECK-NEXT: repro.fold #repro.order<chunk = 1, lanes = 1, run = 0, totals = sequential>
// CHECK-SAME: repro.init = [0.000000e+00 : f32]
// CHECK: arith.addf

// An init of -0 must not be added to totals that begin with +0, so it is added later, to totals that begin with -0.
// CHECK: func.func private @split_[[OTHER:.*]]_chunks(%{{.*}}: memref<3x2x512xf32, strided<[1100, 512, 1]>>
// CHECK: func.func private @split_[[OTHER]]_last_chunk(%{{.*}}: memref<3x1x76xf32, strided<[1100, 76, 1]>>
// CHECK: func.func private @split_[[OTHER]]_totals(
// CHECK-NEXT: repro.fold #repro.sequential
// CHECK-SAME: repro.init = [-0.000000e+00 : f32]
// CHECK: func.func private @split_[[OTHER]]_init(%{{.*}}: memref<3x5xf32> {launch.access = #launch<access read>{{.*}}, %{{.*}}: memref<3x5xf32> {launch.access = #launch<access read|write>
// CHECK-NEXT: linalg.generic

// A fold in any order is cut into parts (F5), which begin with the identity.
// CHECK: repro.fold #repro.any_order {{.*}} ins(%{{.*}} : memref<4x10xi32>) outs(%{{.*}} : memref<4xi32>) attributes {repro.init = [-2147483648 : i32]}
// CHECK: repro.fold #repro.any_order {{.*}} ins(%{{.*}} : memref<4xi32>) outs(%{{.*}} : memref<i32>)

// Chunk results of successive folds have different places.
// CHECK: launch.plan @main {{.*}} arena(%[[ARENA:.*]]: memref<512xi8>) live 256
// CHECK: launch.view %arg0[0]
// CHECK: launch.view %[[ARENA]][0] : memref<512xi8> to memref<2x3x5xf32>
// CHECK: launch.dispatch @[[CHUNKS]](
// CHECK: launch.view %arg0[12288]
// CHECK: launch.view %[[ARENA]][120] : memref<512xi8> to memref<1x3x5xf32>
// CHECK: launch.dispatch @[[LAST]](
// CHECK: launch.dispatch @[[TOTALS]](
// CHECK: launch.view %[[ARENA]][256] : memref<512xi8> to memref<2x3x5xf32>
#kn = affine_map<(m, n, k) -> (k, n)>
#km = affine_map<(m, n, k) -> (k, m)>
#mk = affine_map<(m, n, k) -> (m, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(i, j) -> (i, j)>
#all = affine_map<(i, j) -> ()>
func.func @main(%x: tensor<1100x3xf32>, %w: tensor<1100x5xf32>, %y: tensor<3x1100xf32>, %z: tensor<3x5xf32>, %i: tensor<4x10xi32>, %c: tensor<i32>) -> (tensor<3x5xf32>, tensor<3x5xf32>, tensor<i32>) attributes {repro.num_state = 0 : i64} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x5xf32>
  %f = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<3x5xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  } -> tensor<3x5xf32>
  %p = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#km, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<1100x3xf32>, tensor<1100x5xf32>) outs(%f : tensor<3x5xf32>) {
  ^bb0(%u: f32, %v: f32, %acc: f32):
    %r = math.fma %u, %v, %acc : f32
    repro.yield %r : f32
  } -> tensor<3x5xf32>
  %q = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%y, %w : tensor<3x1100xf32>, tensor<1100x5xf32>) outs(%z : tensor<3x5xf32>) {
  ^bb0(%u: f32, %v: f32, %acc: f32):
    %r = math.fma %u, %v, %acc : f32
    repro.yield %r : f32
  } -> tensor<3x5xf32>
  %m = repro.fold #repro.any_order maps [#id, #all] iterators [reduction, reduction]
      ins(%i : tensor<4x10xi32>) outs(%c : tensor<i32>) {
  ^bb0(%u: i32, %acc: i32):
    %r = arith.maxsi %acc, %u : i32
    repro.yield %r : i32
  } -> tensor<i32>
  return %p, %q, %m : tensor<3x5xf32>, tensor<3x5xf32>, tensor<i32>
}
