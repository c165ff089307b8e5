// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v2 | FileCheck %s --check-prefix=V2
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v3 | FileCheck %s --check-prefix=V3
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v4 | FileCheck %s --check-prefix=V4
// RUN: %repro-opt %s --repro-expand-kernels=level=%S/Inputs/small-caches.json | FileCheck %s --check-prefix=SMALL
// RUN: not %repro-opt %s --repro-expand-kernels=level=x86-64-v5 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: unknown CPU level 'x86-64-v5', expected one of x86-64-v2, x86-64-v3, x86-64-v4, x86-64-v4-vnni, aarch64, aarch64-dotprod

// K-blocks fit into the L1 cache, blocks of rows into the L2 cache.
// V2-LABEL: @product(
// V2-SAME: launch.tiles = ["tile 4 x 2 vectors of 4 (masked), rows in place, columns packed, K-blocks of 512 of 512, blocks of 500 rows, groups of 4 panels, strips of 1 blocks and 10 groups, 40 items"]
// V3-LABEL: @product(
// V3-SAME: launch.tiles = ["tile 6 x 2 vectors of 8 (masked), rows in place, columns packed, K-blocks of 256 of 512, blocks of 504 rows, groups of 1 panels, strips of 1 blocks and 19 groups, 76 items"]
// V4-LABEL: @product(
// V4-SAME: launch.tiles = ["tile 6 x 4 vectors of 16 (masked), rows in place, columns packed, K-blocks of 64 of 512, blocks of 504 rows, groups of 1 panels, strips of 1 blocks and 5 groups, 20 items"]
// SMALL-LABEL: @product(
// SMALL-SAME: launch.tiles = ["tile 6 x 4 vectors of 16 (masked), rows in place, columns packed, K-blocks of 32 of 512, blocks of 72 rows, groups of 1 panels, strips of 1 blocks and 5 groups, 140 items"]
func.func private @product(%a: memref<2000x1100xf32>, %b: memref<1100x300xf32>, %o: memref<2000x300xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] iterators [parallel, parallel, reduction] ins(%a, %b : memref<2000x1100xf32>, memref<1100x300xf32>) outs(%o : memref<2000x300xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %r = math.fma %x, %y, %acc : f32
    repro.yield %r : f32
  }
  return
}

// Few rows fit into one tile, which has more vectors.
// V2-LABEL: @few_rows(
// V2-SAME: launch.tiles = ["tile 3 x 2 vectors of 2, rows in place, columns packed, transposed, K-blocks of 64 of 64, blocks of 3 rows, groups of 4 panels, strips of 1 blocks and 3 groups, 3 items"]
// V3-LABEL: @few_rows(
// V3-SAME: launch.tiles = ["tile 12 x 1 vectors of 4 (masked), factors swapped, rows in place, columns packed, transposed, K-blocks of 64 of 64, blocks of 48 rows, groups of 1 panels, strips of 1 blocks and 1 groups, 1 items"]
// V4-LABEL: @few_rows(
// V4-SAME: launch.tiles = ["tile 3 x 5 vectors of 8, rows in place, columns packed, transposed, K-blocks of 64 of 64, blocks of 3 rows, groups of 1 panels, strips of 1 blocks and 1 groups, 1 items"]
// SMALL-LABEL: @few_rows(
// SMALL-SAME: launch.tiles = ["tile 3 x 5 vectors of 8, rows in place, columns packed, transposed, K-blocks of 64 of 64, blocks of 3 rows, groups of 1 panels, strips of 1 blocks and 1 groups, 1 items"]
func.func private @few_rows(%a: memref<3x64xf64>, %b: memref<40x64xf64>, %o: memref<3x40xf64>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>] iterators [parallel, parallel, reduction] ins(%a, %b : memref<3x64xf64>, memref<40x64xf64>) outs(%o : memref<3x40xf64>) {
  ^bb0(%x: f64, %y: f64, %acc: f64):
    %r = math.fma %x, %y, %acc : f64
    repro.yield %r : f64
  }
  return
}

// One row, with columns in memory: reading panel after panel creates few long streams.
// V2-LABEL: @one_row(
// V2-SAME: launch.tiles = ["tile 1 x 8 vectors of 4, rows packed, columns in place, K-blocks of 8 of 512, blocks of 1 rows, panels within K-blocks, groups of 1 panels, strips of 1 blocks and 128 groups, 128 items"]
// V3-LABEL: @one_row(
// V3-SAME: launch.tiles = ["tile 1 x 8 vectors of 8, rows packed, columns in place, K-blocks of 8 of 512, blocks of 1 rows, panels within K-blocks, groups of 1 panels, strips of 1 blocks and 64 groups, 64 items"]
// V4-LABEL: @one_row(
// V4-SAME: launch.tiles = ["tile 1 x 8 vectors of 16, rows packed, columns in place, K-blocks of 8 of 512, blocks of 1 rows, panels within K-blocks, groups of 1 panels, strips of 1 blocks and 32 groups, 32 items"]
// SMALL-LABEL: @one_row(
// SMALL-SAME: launch.tiles = ["tile 1 x 8 vectors of 16, rows packed, columns in place, K-blocks of 8 of 512, blocks of 1 rows, panels within K-blocks, groups of 1 panels, strips of 1 blocks and 32 groups, 32 items"]
func.func private @one_row(%a: memref<1x1024xf32>, %b: memref<1024x4096xf32>, %o: memref<1x4096xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] iterators [parallel, parallel, reduction] ins(%a, %b : memref<1x1024xf32>, memref<1024x4096xf32>) outs(%o : memref<1x4096xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %r = math.fma %x, %y, %acc : f32
    repro.yield %r : f32
  }
  return
}

// Columns fit into a cache, so the sums of a panel stay in registers.
// V3-LABEL: @one_row_of_few(
// V3-SAME: launch.tiles = ["tile 1 x 4 vectors of 8, rows in place, columns in place, K-blocks of 512 of 512, blocks of 1 rows, groups of 1 panels, strips of 1 blocks and 1 groups, 1 items"]
func.func private @one_row_of_few(%a: memref<1x1024xf32>, %b: memref<1024x32xf32>, %o: memref<1x32xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] iterators [parallel, parallel, reduction] ins(%a, %b : memref<1x1024xf32>, memref<1024x32xf32>) outs(%o : memref<1x32xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %r = math.fma %x, %y, %acc : f32
    repro.yield %r : f32
  }
  return
}
