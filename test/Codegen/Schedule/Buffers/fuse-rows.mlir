// RUN: %repro-opt %s --split-input-file --pass-pipeline='builtin.module(repro-number-checks,func.func(repro-fuse-rows),repro-outline-kernels)' | FileCheck %s
// RUN: %repro-opt %s --split-input-file --repro-number-checks --repro-outline-kernels | FileCheck %s --check-prefix=ALONE
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>

// A buffer that only the run uses shrinks to one block; the fold across rows is a kernel of its own.

// ALONE-NOT: scf.forall
// CHECK: func.func private @kernel_0(%[[X:.*]]: memref<65536xf32> {launch.access = #launch<access read>}, %[[Y:.*]]: memref<65536xf32> {launch.access = #launch<access write>}, %{{.*}}: memref<?xi8>
// CHECK-NEXT: scf.forall (%[[BLOCK:.*]]) in (64) {
// CHECK-NEXT: %[[SUM:.*]] = memref.alloc() : memref<4xf32>
// CHECK: %[[START:.*]] = arith.muli %[[BLOCK]], %c1024
// CHECK: %[[PART:.*]] = memref.reinterpret_cast %[[X]] to offset: [%[[START]]], sizes: [4, 256], strides: [256, 1]
// CHECK: %[[INTO:.*]] = memref.reinterpret_cast %[[SUM]] to offset: [0], sizes: [4], strides: [1]
// CHECK: repro.fold {{.*}} ins(%[[PART]] : {{.*}}) outs(%[[INTO]] :
// CHECK: %[[FROM:.*]] = memref.reinterpret_cast %[[SUM]]
// CHECK: %[[RESULT:.*]] = memref.reinterpret_cast %[[Y]]
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[FROM]] : {{.*}}) outs(%[[RESULT]] :
// CHECK: memref.prefetch {{.*}}, read
// CHECK-NEXT: memref.prefetch {{.*}}, write
// CHECK: func.func private @kernel_1(
// CHECK-NOT: scf.forall
// CHECK: func.func @main
// CHECK-NOT: memref<256xf32>{{$}}
// CHECK: launch.dispatch @kernel_0
// CHECK: launch.dispatch @kernel_1
func.func @main(%x: memref<256x256xf32>) -> (memref<256x256xf32>, memref<256xf32>) {
  %sum = memref.alloc() : memref<256xf32>
  repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold> maps [#rows, #row] iterators [parallel, reduction] ins(%x : memref<256x256xf32>) outs(%sum : memref<256xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.addf %u, %a : f32
    repro.yield %r : f32
  }
  %y = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : memref<256x256xf32>, memref<256xf32>) outs(%y : memref<256x256xf32>) {
  ^bb0(%u: f32, %s: f32, %o: f32):
    %r = arith.divf %u, %s : f32
    linalg.yield %r : f32
  }
  %across = memref.alloc() : memref<256xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#rows, #column] iterators [reduction, parallel] ins(%y : memref<256x256xf32>) outs(%across : memref<256xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.addf %u, %a : f32
    repro.yield %r : f32
  }
  return %y, %across : memref<256x256xf32>, memref<256xf32>
}

// -----

#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#id = affine_map<(i) -> (i)>

// The op gathers from its own row of a buffer that the run writes.

// CHECK: scf.forall (%{{.*}}) in (64)
// CHECK: %[[PART:.*]] = memref.alloc() : memref<1024xf32>
// CHECK: linalg.generic
// CHECK: linalg.generic
// CHECK: linalg.index 0
// CHECK: memref.load %{{.*}}[%{{.*}}, %{{.*}}] : memref<4x256xf32, strided<[256, 1]>>
// CHECK-NOT: scf.forall
func.func @main(%x: memref<256x256xf32>, %t: memref<256xindex>) -> (memref<256xf32>) {
  %sum = memref.alloc() : memref<256xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%x : memref<256x256xf32>) outs(%sum : memref<256xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %y = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : memref<256x256xf32>, memref<256xf32>) outs(%y : memref<256x256xf32>) {
  ^bb0(%u: f32, %s: f32, %o: f32):
    %r = arith.subf %u, %s : f32
    linalg.yield %r : f32
  }
  %loss = memref.alloc() : memref<256xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%t : memref<256xindex>) outs(%loss : memref<256xf32>) {
  ^bb0(%k: index, %o: f32):
    %i = linalg.index 0 : index
    %v = memref.load %y[%i, %k] : memref<256x256xf32> loc(unknown)
    linalg.yield %v : f32
  }
  return %loss : memref<256xf32>
}

// -----

#rows = affine_map<(i, j, k) -> (i, j, k)>
#row = affine_map<(i, j, k) -> (i, j)>
#mask = affine_map<(i, j, k) -> (j, k)>

// The mask follows only one dimension of the rows.

// CHECK: scf.forall (%[[BLOCK:.*]]) in (64)
// CHECK: %[[AT:.*]] = arith.remui %[[BLOCK]], %c8
// CHECK: %[[POSITION:.*]] = arith.muli %[[AT]], %c8
// CHECK: %[[OFFSET:.*]] = arith.muli %[[POSITION]], %c128
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [%[[OFFSET]]], sizes: [8, 128], strides: [128, 1] : memref<8192xf32>
// CHECK: repro.fold {{.*}} memref<1x8x128xf32, {{.*}}>, memref<8x128xf32, strided<[128, 1], offset: ?>>
// CHECK: linalg.generic
func.func @main(%x: memref<8x64x128xf32>, %m: memref<64x128xf32>) -> (memref<8x64x128xf32>) {
  %sum = memref.alloc() : memref<8x64xf32>
  repro.fold #repro.any_order maps [#rows, #mask, #row] iterators [parallel, parallel, reduction] ins(%x, %m : memref<8x64x128xf32>, memref<64x128xf32>) outs(%sum : memref<8x64xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %v: f32, %a: f32):
    %w = arith.mulf %u, %v : f32
    %r = arith.maximumf %w, %a : f32
    repro.yield %r : f32
  }
  %y = memref.alloc() : memref<8x64x128xf32>
  linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %sum : memref<8x64x128xf32>, memref<8x64xf32>) outs(%y : memref<8x64x128xf32>) {
  ^bb0(%u: f32, %s: f32, %o: f32):
    %r = arith.subf %u, %s : f32
    linalg.yield %r : f32
  }
  return %y : memref<8x64x128xf32>
}

// -----

#rows = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>

// Not by rows: the sums are read as a row; the row number is used in arithmetic; the result is transposed.

// CHECK-NOT: scf.forall
func.func @main(%x: memref<256x256xf32>, %v: memref<256x256xf32>, %w: memref<256x256xf32>) -> (memref<256x256xf32>, memref<256x256xindex>, memref<256x256xf32>) {
  %sum = memref.alloc() : memref<256xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%x : memref<256x256xf32>) outs(%sum : memref<256xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %y = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #column, #rows], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : memref<256x256xf32>, memref<256xf32>) outs(%y : memref<256x256xf32>) {
  ^bb0(%u: f32, %s: f32, %o: f32):
    %r = arith.subf %u, %s : f32
    linalg.yield %r : f32
  }
  %peak = memref.alloc() : memref<256xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%v : memref<256x256xf32>) outs(%peak : memref<256xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %n = memref.alloc() : memref<256x256xindex>
  linalg.generic {indexing_maps = [#row, #rows], iterator_types = ["parallel", "parallel"]} ins(%peak : memref<256xf32>) outs(%n : memref<256x256xindex>) {
  ^bb0(%s: f32, %o: index):
    %i = linalg.index 0 : index
    linalg.yield %i : index
  }
  %low = memref.alloc() : memref<256xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%w : memref<256x256xf32>) outs(%low : memref<256xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.minimumf %u, %a : f32
    repro.yield %r : f32
  }
  %z = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #row, #turned], iterator_types = ["parallel", "parallel"]} ins(%w, %low : memref<256x256xf32>, memref<256xf32>) outs(%z : memref<256x256xf32>) {
  ^bb0(%u: f32, %s: f32, %o: f32):
    %r = arith.subf %u, %s : f32
    linalg.yield %r : f32
  }
  return %y, %n, %z : memref<256x256xf32>, memref<256x256xindex>, memref<256x256xf32>
}

// -----

#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// A fold of other rows joins the run if a later op reads its rows. While the exponential is computed, lines are
// prefetched that later ops of this block and earlier ops of the next block use.

// CHECK: func.func private @kernel_0(%[[X:.*]]: memref<65536xf32> {{{.*}}}, %[[E:.*]]: memref<65536xf32> {{{.*}}}, %[[Z:.*]]: memref<65536xf32> {{{.*}}}, %[[Y:.*]]: memref<65536xf32> {{{.*}}}, %{{.*}}: memref<?xi8>
// CHECK: scf.forall (%[[BLOCK:.*]]) in (128) {
// CHECK: arith.maximumf
// CHECK: memref.reinterpret_cast %[[E]] to offset:
// CHECK: %[[HERE:.*]] = arith.muli %[[BLOCK]], %c512
// CHECK: %[[AFTER:.*]] = arith.addi %[[BLOCK]], %c1
// CHECK: %[[NEXT:.*]] = arith.minui %[[AFTER]], %c127
// CHECK: %[[THERE:.*]] = arith.muli %[[NEXT]], %c512
// CHECK: %[[NEXT_X:.*]] = memref.reinterpret_cast %[[X]] to offset: [%[[THERE]]], sizes: [2, 256], strides: [256, 1]
// CHECK: %[[NEXT_E:.*]] = memref.reinterpret_cast %[[E]] to offset: [%[[THERE]]]
// CHECK: %[[THIS_Z:.*]] = memref.reinterpret_cast %[[Z]] to offset: [%[[HERE]]]
// CHECK: %[[THIS_Y:.*]] = memref.reinterpret_cast %[[Y]] to offset: [%[[HERE]]]
// CHECK: linalg.generic
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[J:.*]] = linalg.index 1
// CHECK: memref.prefetch %[[NEXT_X]][%[[I]], %[[J]]], read
// CHECK: memref.prefetch %[[NEXT_E]][%[[I]], %[[J]]], write
// CHECK: memref.prefetch %[[THIS_Z]][%[[I]], %[[J]]], read
// CHECK: memref.prefetch %[[THIS_Y]][%[[I]], %[[J]]], write
// CHECK: repro.exp
// CHECK: arith.minimumf
// CHECK: linalg.generic
// CHECK-NOT: memref.prefetch
// CHECK: func.func @main
func.func @main(%x: memref<256x256xf32>, %z: memref<256x256xf32>) -> (memref<256x256xf32>, memref<256x256xf32>) {
  %peak = memref.alloc() : memref<256xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%x : memref<256x256xf32>) outs(%peak : memref<256xf32>) attributes {repro.init = [0xFF800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %e = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]} ins(%x, %peak : memref<256x256xf32>, memref<256xf32>) outs(%e : memref<256x256xf32>) {
  ^bb0(%u: f32, %s: f32, %o: f32):
    %d = arith.subf %u, %s : f32
    %r = repro.exp %d : f32
    linalg.yield %r : f32
  }
  %low = memref.alloc() : memref<256xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%z : memref<256x256xf32>) outs(%low : memref<256xf32>) attributes {repro.init = [0x7F800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.minimumf %u, %a : f32
    repro.yield %r : f32
  }
  %y = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]} ins(%e, %low : memref<256x256xf32>, memref<256xf32>) outs(%y : memref<256x256xf32>) {
  ^bb0(%u: f32, %s: f32, %o: f32):
    %r = arith.subf %u, %s : f32
    linalg.yield %r : f32
  }
  return %e, %y : memref<256x256xf32>, memref<256x256xf32>
}

// -----

#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// The run also extends backwards: the first op writes the fold's input, and the op between them joins the run.

// CHECK: func.func private @kernel_0
// CHECK: scf.forall
// CHECK: linalg.generic
// CHECK: linalg.generic
// CHECK: arith.maximumf
// CHECK: func.func @main
func.func @main(%x: memref<256x256xf32>, %z: memref<256x256xf32>) -> (memref<256x256xf32>, memref<256x256xf32>, memref<256xf32>) {
  %y = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%x : memref<256x256xf32>) outs(%y : memref<256x256xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %w = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%z : memref<256x256xf32>) outs(%w : memref<256x256xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %peak = memref.alloc() : memref<256xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%y : memref<256x256xf32>) outs(%peak : memref<256xf32>) attributes {repro.init = [0xFF800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  return %y, %w, %peak : memref<256x256xf32>, memref<256x256xf32>, memref<256xf32>
}

// -----

#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// Four ops between two ops of a run are too many.

// CHECK: func.func private @kernel_0
// CHECK-NOT: scf.forall
// CHECK: func.func @main
func.func @main(%x: memref<256x256xf32>, %z: memref<256x256xf32>) -> (memref<256xf32>, memref<256x256xf32>, memref<256x256xf32>, memref<256x256xf32>, memref<256x256xf32>, memref<256x256xf32>) {
  %peak = memref.alloc() : memref<256xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%x : memref<256x256xf32>) outs(%peak : memref<256xf32>) attributes {repro.init = [0xFF800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %a = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%z : memref<256x256xf32>) outs(%a : memref<256x256xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %b = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%z : memref<256x256xf32>) outs(%b : memref<256x256xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %c = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%z : memref<256x256xf32>) outs(%c : memref<256x256xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %d = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%z : memref<256x256xf32>) outs(%d : memref<256x256xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %y = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%x : memref<256x256xf32>) outs(%y : memref<256x256xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  return %peak, %a, %b, %c, %d, %y : memref<256xf32>, memref<256x256xf32>, memref<256x256xf32>, memref<256x256xf32>, memref<256x256xf32>, memref<256x256xf32>
}

// -----

#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// All rows are one block: no next block is prefetched.

// CHECK: scf.forall (%{{.*}}) in (1)
// CHECK-NOT: memref.prefetch
// CHECK: func.func @main
func.func @main(%x: memref<4x16xf32>) -> (memref<4xf32>, memref<4x16xf32>) {
  %peak = memref.alloc() : memref<4xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%x : memref<4x16xf32>) outs(%peak : memref<4xf32>) attributes {repro.init = [0xFF800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %y = memref.alloc() : memref<4x16xf32>
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%x : memref<4x16xf32>) outs(%y : memref<4x16xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  return %peak, %y : memref<4xf32>, memref<4x16xf32>
}

// -----

#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// Rows of 1 MiB: sixteen rows are fused as one block each,

// CHECK: scf.forall (%{{.*}}) in (16)
// CHECK: func.func @main
func.func @main(%x: memref<16x131072xf32>) -> (memref<16xf32>, memref<16x131072xf32>) {
  %peak = memref.alloc() : memref<16xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%x : memref<16x131072xf32>) outs(%peak : memref<16xf32>) attributes {repro.init = [0xFF800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %y = memref.alloc() : memref<16x131072xf32>
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%x : memref<16x131072xf32>) outs(%y : memref<16x131072xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  return %peak, %y : memref<16xf32>, memref<16x131072xf32>
}

// -----

#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// but fifteen are not, because there may be more threads.

// CHECK: func.func private @kernel_0
// CHECK-NOT: scf.forall
// CHECK: func.func @main
func.func @main(%x: memref<15x131072xf32>) -> (memref<15xf32>, memref<15x131072xf32>) {
  %peak = memref.alloc() : memref<15xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%x : memref<15x131072xf32>) outs(%peak : memref<15xf32>) attributes {repro.init = [0xFF800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %y = memref.alloc() : memref<15x131072xf32>
  linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%x : memref<15x131072xf32>) outs(%y : memref<15x131072xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  return %peak, %y : memref<15xf32>, memref<15x131072xf32>
}

// -----

#left = affine_map<(b, i, j, k) -> (b, i, k)>
#right = affine_map<(b, i, j, k) -> (b, k, j)>
#turned = affine_map<(b, i, j, k) -> (b, j, k)>
#result = affine_map<(b, i, j, k) -> (b, i, j)>
#all = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>

// Attention: a row is an item with its scores. Its products get the caches for themselves.

// CHECK: scf.forall (%{{.*}}) in (24)
// CHECK-COUNT-3: memref.alloc() : memref<{{4096|64}}xf32>
// CHECK: math.fma
// CHECK: arith.maximumf
// CHECK-NOT: memref.prefetch
// CHECK: arith.subf
// CHECK: math.fma
// CHECK-NOT: func.func private
func.func @main(%q: memref<24x64x32xf32>, %k: memref<24x64x32xf32>, %v: memref<24x64x32xf32>) -> (memref<24x64x32xf32>) {
  %scores = memref.alloc() : memref<24x64x64xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#left, #turned, #result] iterators [parallel, parallel, parallel, reduction] ins(%q, %k : memref<24x64x32xf32>, memref<24x64x32xf32>) outs(%scores : memref<24x64x64xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%m: f32, %n: f32, %a: f32):
    %r = math.fma %m, %n, %a : f32
    repro.yield %r : f32
  }
  %peak = memref.alloc() : memref<24x64xf32>
  repro.fold #repro.any_order maps [#all, #row] iterators [parallel, parallel, reduction] ins(%scores : memref<24x64x64xf32>) outs(%peak : memref<24x64xf32>) attributes {repro.init = [0xFF800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %p = memref.alloc() : memref<24x64x64xf32>
  linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%scores, %peak : memref<24x64x64xf32>, memref<24x64xf32>) outs(%p : memref<24x64x64xf32>) {
  ^bb0(%u: f32, %s: f32, %o: f32):
    %r = arith.subf %u, %s : f32
    linalg.yield %r : f32
  }
  %out = memref.alloc() : memref<24x64x32xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#left, #right, #result] iterators [parallel, parallel, parallel, reduction] ins(%p, %v : memref<24x64x64xf32>, memref<24x64x32xf32>) outs(%out : memref<24x64x32xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%m: f32, %n: f32, %a: f32):
    %r = math.fma %m, %n, %a : f32
    repro.yield %r : f32
  }
  return %out : memref<24x64x32xf32>
}

// -----

#left = affine_map<(b, i, j, k) -> (b, i, k)>
#right = affine_map<(b, i, j, k) -> (b, k, j)>
#turned = affine_map<(b, i, j, k) -> (b, j, k)>
#result = affine_map<(b, i, j, k) -> (b, i, j)>
#all = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>

// There are fewer items than threads: only the rows of the scores are fused.

// CHECK: @kernel_0(
// CHECK-NOT: scf.forall
// CHECK: math.fma
// CHECK: scf.forall (%{{.*}}) in (32)
// CHECK-NOT: math.fma
// CHECK: @kernel_2(
// CHECK-NOT: scf.forall
// CHECK: math.fma
// CHECK: func.func @main
func.func @main(%q: memref<8x64x32xf32>, %k: memref<8x64x32xf32>, %v: memref<8x64x32xf32>) -> (memref<8x64x32xf32>) {
  %scores = memref.alloc() : memref<8x64x64xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#left, #turned, #result] iterators [parallel, parallel, parallel, reduction] ins(%q, %k : memref<8x64x32xf32>, memref<8x64x32xf32>) outs(%scores : memref<8x64x64xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%m: f32, %n: f32, %a: f32):
    %r = math.fma %m, %n, %a : f32
    repro.yield %r : f32
  }
  %peak = memref.alloc() : memref<8x64xf32>
  repro.fold #repro.any_order maps [#all, #row] iterators [parallel, parallel, reduction] ins(%scores : memref<8x64x64xf32>) outs(%peak : memref<8x64xf32>) attributes {repro.init = [0xFF800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %p = memref.alloc() : memref<8x64x64xf32>
  linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%scores, %peak : memref<8x64x64xf32>, memref<8x64xf32>) outs(%p : memref<8x64x64xf32>) {
  ^bb0(%u: f32, %s: f32, %o: f32):
    %r = arith.subf %u, %s : f32
    linalg.yield %r : f32
  }
  %out = memref.alloc() : memref<8x64x32xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#left, #right, #result] iterators [parallel, parallel, parallel, reduction] ins(%p, %v : memref<8x64x64xf32>, memref<8x64x32xf32>) outs(%out : memref<8x64x32xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%m: f32, %n: f32, %a: f32):
    %r = math.fma %m, %n, %a : f32
    repro.yield %r : f32
  }
  return %out : memref<8x64x32xf32>
}

// -----

#all = affine_map<(i, j, k) -> (i, j, k)>
#item = affine_map<(i, j, k) -> (i)>
#left = affine_map<(b, i, j, k) -> (b, i, k)>
#turned = affine_map<(b, i, j, k) -> (b, j, k)>
#result = affine_map<(b, i, j, k) -> (b, i, j)>

// There are few items: the ops after their products are fused without the products.

// CHECK: @kernel_0(
// CHECK-NOT: scf.forall
// CHECK: math.fma
// CHECK: scf.forall (%{{.*}}) in (8)
// CHECK-NOT: math.fma
// CHECK: func.func @main
func.func @main(%q: memref<8x128x32xf32>, %k: memref<8x128x32xf32>) -> (memref<8x128x128xf32>) {
  %scores = memref.alloc() : memref<8x128x128xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#left, #turned, #result] iterators [parallel, parallel, parallel, reduction] ins(%q, %k : memref<8x128x32xf32>, memref<8x128x32xf32>) outs(%scores : memref<8x128x128xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%m: f32, %n: f32, %a: f32):
    %r = math.fma %m, %n, %a : f32
    repro.yield %r : f32
  }
  %peak = memref.alloc() : memref<8xf32>
  repro.fold #repro.any_order maps [#all, #item] iterators [parallel, reduction, reduction] ins(%scores : memref<8x128x128xf32>) outs(%peak : memref<8xf32>) attributes {repro.init = [0xFF800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %p = memref.alloc() : memref<8x128x128xf32>
  linalg.generic {indexing_maps = [#all, #item, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%scores, %peak : memref<8x128x128xf32>, memref<8xf32>) outs(%p : memref<8x128x128xf32>) {
  ^bb0(%u: f32, %s: f32, %o: f32):
    %r = arith.subf %u, %s : f32
    linalg.yield %r : f32
  }
  return %p : memref<8x128x128xf32>
}

// -----

#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#left = affine_map<(i, j, k) -> (i, k)>
#right = affine_map<(i, j, k) -> (k, j)>
#result = affine_map<(i, j, k) -> (i, j)>

// All rows share a factor, so the product is a kernel of its own.

// CHECK: @kernel_0(
// CHECK-NOT: scf.forall
// CHECK: math.fma
// CHECK: scf.forall
// CHECK-NOT: math.fma
// CHECK: func.func @main
func.func @main(%x: memref<256x64xf32>, %w: memref<64x256xf32>) -> (memref<256x256xf32>) {
  %s = memref.alloc() : memref<256x256xf32>
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#left, #right, #result] iterators [parallel, parallel, reduction] ins(%x, %w : memref<256x64xf32>, memref<64x256xf32>) outs(%s : memref<256x256xf32>) attributes {repro.init = [0.0 : f32]} {
  ^bb0(%m: f32, %n: f32, %a: f32):
    %r = math.fma %m, %n, %a : f32
    repro.yield %r : f32
  }
  %peak = memref.alloc() : memref<256xf32>
  repro.fold #repro.any_order maps [#rows, #row] iterators [parallel, reduction] ins(%s : memref<256x256xf32>) outs(%peak : memref<256xf32>) attributes {repro.init = [0xFF800000 : f32]} {
  ^bb0(%u: f32, %a: f32):
    %r = arith.maximumf %u, %a : f32
    repro.yield %r : f32
  }
  %y = memref.alloc() : memref<256x256xf32>
  linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]} ins(%s, %peak : memref<256x256xf32>, memref<256xf32>) outs(%y : memref<256x256xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %r = arith.subf %u, %v : f32
    linalg.yield %r : f32
  }
  return %y : memref<256x256xf32>
}
