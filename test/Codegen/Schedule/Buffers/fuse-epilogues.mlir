// RUN: %repro-opt %s --split-input-file --pass-pipeline='builtin.module(repro-number-checks,func.func(repro-fuse-epilogues),repro-outline-kernels)' | FileCheck %s
// RUN: %repro-opt %s --split-input-file --repro-number-checks --repro-outline-kernels | FileCheck %s --check-prefix=ALONE
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#x = affine_map<(m, n, k) -> (m, k)>
#y = affine_map<(m, n, k) -> (n, k)>
#z = affine_map<(m, n, k) -> (m, n)>
#all = affine_map<(i, j, n) -> (i, j, n)>
#bias = affine_map<(i, j, n) -> (n)>

// The op reads the results in another shape; the residual has the same shape, the bias follows one dimension.

// ALONE-NOT: memref.alloca_scope
// CHECK-DAG: #[[SAME:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[COLUMN:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK: func.func private @kernel_0(%[[X:.*]]: memref<8x6xf32> {launch.access = #launch<access read>}, %[[Y:.*]]: memref<5x6xf32> {launch.access = #launch<access read>}, %[[R:.*]]: memref<8x5xf32> {launch.access = #launch<access read>}, %[[B:.*]]: memref<5xf32> {launch.access = #launch<access read>}, %[[O:.*]]: memref<8x5xf32> {launch.access = #launch<access write>}
// CHECK-NEXT: memref.alloca_scope {
// CHECK-NEXT: %[[T:.*]] = memref.alloca() : memref<8x5xf32>
// CHECK-NEXT: repro.fold {{.*}} ins(%[[X]], %[[Y]] : {{.*}}) outs(%[[T]] :
// CHECK: linalg.generic {indexing_maps = [#[[SAME]], #[[SAME]], #[[COLUMN]], #[[SAME]]], iterator_types = ["parallel", "parallel"]} ins(%[[R]], %[[T]], %[[B]] : {{.*}}) outs(%[[O]] :
// CHECK: func.func @main
// CHECK: %[[V:.*]] = launch.view %arg2[0] : memref<2x4x5xf32> to memref<8x5xf32>
// CHECK: launch.dispatch @kernel_0(%arg0, %arg1, %[[V]], %arg3,
// CHECK-NOT: launch.dispatch
func.func @main(%x: memref<8x6xf32>, %y: memref<5x6xf32>, %r: memref<2x4x5xf32>, %b: memref<5xf32>) -> memref<2x4x5xf32> {
  %t = memref.alloc() : memref<8x5xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%x, %y : memref<8x6xf32>, memref<5x6xf32>) outs(%t : memref<8x5xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %p = math.fma %u, %v, %a : f32
    repro.yield %p : f32
  }
  %s = memref.expand_shape %t [[0, 1], [2]] output_shape [2, 4, 5] : memref<8x5xf32> into memref<2x4x5xf32>
  %o = memref.alloc() : memref<2x4x5xf32>
  linalg.generic {indexing_maps = [#all, #all, #bias, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r, %s, %b : memref<2x4x5xf32>, memref<2x4x5xf32>, memref<5xf32>) outs(%o : memref<2x4x5xf32>) {
  ^bb0(%u: f32, %v: f32, %w: f32, %out: f32):
    %p = arith.addf %v, %w : f32
    %q = arith.addf %u, %p : f32
    linalg.yield %q : f32
  }
  return %o : memref<2x4x5xf32>
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#y = affine_map<(m, n, k) -> (n, k)>
#z = affine_map<(m, n, k) -> (m, n)>
#same = affine_map<(m, n) -> (m, n)>

// Not fused: the results have another reader; the op overwrites a factor; a
// factor is overwritten before the op; the op has elementary functions.

// CHECK-NOT: memref.alloca_scope
// CHECK: func.func @main
func.func @main(%x: memref<8x8xf32>, %y: memref<8x8xf32>) -> (memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>) {
  %t = memref.alloc() : memref<8x8xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%x, %y : memref<8x8xf32>, memref<8x8xf32>) outs(%t : memref<8x8xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %p = math.fma %u, %v, %a : f32
    repro.yield %p : f32
  }
  %o = memref.alloc() : memref<8x8xf32>
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%t : memref<8x8xf32>) outs(%o : memref<8x8xf32>) {
  ^bb0(%u: f32, %out: f32):
    %p = arith.addf %u, %u : f32
    linalg.yield %p : f32
  }

  %t2 = memref.alloc() : memref<8x8xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%o, %y : memref<8x8xf32>, memref<8x8xf32>) outs(%t2 : memref<8x8xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %p = math.fma %u, %v, %a : f32
    repro.yield %p : f32
  }
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%t2 : memref<8x8xf32>) outs(%o : memref<8x8xf32>) {
  ^bb0(%u: f32, %out: f32):
    %p = arith.addf %u, %u : f32
    linalg.yield %p : f32
  }

  %f = memref.alloc() : memref<8x8xf32>
  %t3 = memref.alloc() : memref<8x8xf32>
  memref.copy %x, %f : memref<8x8xf32> to memref<8x8xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%f, %y : memref<8x8xf32>, memref<8x8xf32>) outs(%t3 : memref<8x8xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %p = math.fma %u, %v, %a : f32
    repro.yield %p : f32
  }
  memref.copy %y, %f : memref<8x8xf32> to memref<8x8xf32>
  %o3 = memref.alloc() : memref<8x8xf32>
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%t3 : memref<8x8xf32>) outs(%o3 : memref<8x8xf32>) {
  ^bb0(%u: f32, %out: f32):
    %p = arith.addf %u, %u : f32
    linalg.yield %p : f32
  }

  %t4 = memref.alloc() : memref<8x8xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%x, %y : memref<8x8xf32>, memref<8x8xf32>) outs(%t4 : memref<8x8xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %p = math.fma %u, %v, %a : f32
    repro.yield %p : f32
  }
  %o4 = memref.alloc() : memref<8x8xf32>
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%t4 : memref<8x8xf32>) outs(%o4 : memref<8x8xf32>) {
  ^bb0(%u: f32, %out: f32):
    %p = repro.exp %u : f32
    linalg.yield %p : f32
  }
  return %t, %o, %f, %o3, %o4 : memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>
}

// -----

#x = affine_map<(b, m, n, k) -> (b, m, k)>
#y = affine_map<(b, m, n, k) -> (b, n, k)>
#z = affine_map<(b, m, n, k) -> (b, m, n)>
#same = affine_map<(b, m, n) -> (b, m, n)>

// A batch is not fused: such contractions belong to fusions of operations on the same rows.

// CHECK-NOT: memref.alloca_scope
// CHECK: func.func @main
func.func @main(%x: memref<3x8x8xf32>, %y: memref<3x8x8xf32>) -> memref<3x8x8xf32> {
  %t = memref.alloc() : memref<3x8x8xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, parallel, reduction] ins(%x, %y : memref<3x8x8xf32>, memref<3x8x8xf32>) outs(%t : memref<3x8x8xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %p = math.fma %u, %v, %a : f32
    repro.yield %p : f32
  }
  %o = memref.alloc() : memref<3x8x8xf32>
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t : memref<3x8x8xf32>) outs(%o : memref<3x8x8xf32>) {
  ^bb0(%u: f32, %out: f32):
    %p = arith.addf %u, %u : f32
    linalg.yield %p : f32
  }
  return %o : memref<3x8x8xf32>
}

// -----

#x = affine_map<(o, h, w, i) -> (i, h, w)>
#y = affine_map<(o, h, w, i) -> (o, i)>
#z = affine_map<(o, h, w, i) -> (o, h, w)>
#same = affine_map<(o, h, w) -> (o, h, w)>

// The product has one dimension of 9 x 5 pixels; the frame around the images
// would reduce the dimension to 5.

// CHECK-NOT: memref.alloca_scope
// CHECK: func.func @main
func.func @main(%x: memref<3x9x5xf32>, %y: memref<4x3xf32>) -> memref<4x11x7xf32> {
  %t = memref.alloc() : memref<4x9x5xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, parallel, reduction] ins(%x, %y : memref<3x9x5xf32>, memref<4x3xf32>) outs(%t : memref<4x9x5xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %p = math.fma %u, %v, %a : f32
    repro.yield %p : f32
  }
  %o = memref.alloc() : memref<4x11x7xf32>
  %inner = memref.subview %o[0, 1, 1] [4, 9, 5] [1, 1, 1] : memref<4x11x7xf32> to memref<4x9x5xf32, strided<[77, 7, 1], offset: 8>>
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t : memref<4x9x5xf32>) outs(%inner : memref<4x9x5xf32, strided<[77, 7, 1], offset: 8>>) {
  ^bb0(%u: f32, %out: f32):
    %p = arith.addf %u, %u : f32
    linalg.yield %p : f32
  }
  return %o : memref<4x11x7xf32>
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#y = affine_map<(m, n, k) -> (n, k)>
#z = affine_map<(m, n, k) -> (m, n)>
#same = affine_map<(m, n) -> (m, n)>

// Pairs may interleave; the third pair is too far apart.

// CHECK: func.func @main
// CHECK-COUNT-11: launch.dispatch @
// CHECK-NOT: launch.dispatch @
func.func @main(%x: memref<8x8xf32>, %y: memref<8x8xf32>) -> (memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>, memref<8xf32>) {
  %t0 = memref.alloc() : memref<8x8xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%x, %y : memref<8x8xf32>, memref<8x8xf32>) outs(%t0 : memref<8x8xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %p = math.fma %u, %v, %a : f32
    repro.yield %p : f32
  }
  %f = memref.alloc() : memref<8xf32>
  %g = memref.alloc() : memref<8xf32>
  memref.copy %g, %f : memref<8xf32> to memref<8xf32>
  memref.copy %g, %f : memref<8xf32> to memref<8xf32>
  memref.copy %g, %f : memref<8xf32> to memref<8xf32>
  memref.copy %g, %f : memref<8xf32> to memref<8xf32>
  %t1 = memref.alloc() : memref<8x8xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%y, %x : memref<8x8xf32>, memref<8x8xf32>) outs(%t1 : memref<8x8xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %p = math.fma %u, %v, %a : f32
    repro.yield %p : f32
  }
  %t2 = memref.alloc() : memref<8x8xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%y, %y : memref<8x8xf32>, memref<8x8xf32>) outs(%t2 : memref<8x8xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %p = math.fma %u, %v, %a : f32
    repro.yield %p : f32
  }
  memref.copy %g, %f : memref<8xf32> to memref<8xf32>
  memref.copy %g, %f : memref<8xf32> to memref<8xf32>
  memref.copy %g, %f : memref<8xf32> to memref<8xf32>
  %o0 = memref.alloc() : memref<8x8xf32>
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%t0 : memref<8x8xf32>) outs(%o0 : memref<8x8xf32>) {
  ^bb0(%u: f32, %out: f32):
    %p = arith.addf %u, %u : f32
    linalg.yield %p : f32
  }
  %o1 = memref.alloc() : memref<8x8xf32>
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%t1 : memref<8x8xf32>) outs(%o1 : memref<8x8xf32>) {
  ^bb0(%u: f32, %out: f32):
    %p = arith.mulf %u, %u : f32
    linalg.yield %p : f32
  }
  %o2 = memref.alloc() : memref<8x8xf32>
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%t2 : memref<8x8xf32>) outs(%o2 : memref<8x8xf32>) {
  ^bb0(%u: f32, %out: f32):
    %p = arith.negf %u : f32
    linalg.yield %p : f32
  }
  return %o0, %o1, %o2, %f : memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>, memref<8xf32>
}
