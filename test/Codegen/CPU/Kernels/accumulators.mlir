// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// (M4) The kernel and the conversion instructions for each accumulator and CPU level.
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v2 | FileCheck %s --check-prefixes=CHECK,V2
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v4 | FileCheck %s --check-prefixes=CHECK,V4
// RUN: %repro-opt %s --repro-expand-kernels=level=aarch64 | FileCheck %s --check-prefixes=CHECK,ARM

// Exponents of a tile are vectors of i16; K-blocks consist of whole accumulator blocks.
// CHECK-LABEL: @product(
// V2-SAME: launch.tiles = ["tile 4 x 2 vectors of 4
// V3-SAME: launch.tiles = ["tile 4 x 2 vectors of 8
// V4-SAME: launch.tiles = ["tile 4 x 2 vectors of 16{{.*}} rows packed, columns packed, K-blocks of 128 of 1024
// ARM-SAME: launch.tiles = ["tile 4 x 2 vectors of 4
// V2-DAG: llvm.call_intrinsic "llvm.x86.sse2.cvttps2dq"
// V2-DAG: llvm.call_intrinsic "llvm.x86.ssse3.psign.d.128"
// V3-DAG: llvm.call_intrinsic "llvm.x86.avx.cvtt.ps2dq.256"
// V3-DAG: llvm.call_intrinsic "llvm.x86.avx2.psign.d"
// V4-DAG: llvm.call_intrinsic "llvm.x86.avx512.mask.cvttps2dq.512"
// V4-DAG: llvm.call_intrinsic "llvm.x86.avx512.sitofp.round.v16f32.v16i32"
// ARM-DAG: llvm.call_intrinsic "llvm.aarch64.neon.fcvtzs.v4i32.v4f32"
// CHECK: return
func.func private @product(%a: memref<200x1100xbf16>, %b: memref<1100x300xbf16>, %o: memref<200x300xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.fold #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = -133> maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] iterators [parallel, parallel, reduction] ins(%a, %b : memref<200x1100xbf16>, memref<1100x300xbf16>) outs(%o : memref<200x300xf32>) {
  ^bb0(%x: bf16, %y: bf16, %acc: f32):
    %p = arith.extf %x : bf16 to f32
    %q = arith.extf %y : bf16 to f32
    %r = math.fma %p, %q, %acc : f32
    repro.yield %r : f32
  }
  return
}

// Integers, result by result: no truncation, a product that does not fit into i32, or factors without a dimension.
// CHECK-LABEL: @exact(
// CHECK-NOT: launch.tiles
// CHECK-NOT: llvm.call_intrinsic
// CHECK: return
func.func private @exact(%a: memref<20x11xbf16>, %b: memref<11x30xbf16>, %o: memref<20x30xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.fold #repro.fdpa<terms = 16, round = rz_f32, floor = 0> maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] iterators [parallel, parallel, reduction] ins(%a, %b : memref<20x11xbf16>, memref<11x30xbf16>) outs(%o : memref<20x30xf32>) {
  ^bb0(%x: bf16, %y: bf16, %acc: f32):
    %p = arith.extf %x : bf16 to f32
    %q = arith.extf %y : bf16 to f32
    %r = math.fma %p, %q, %acc : f32
    repro.yield %r : f32
  }
  return
}

// CHECK-LABEL: @wide(
// CHECK-NOT: launch.tiles
// CHECK-NOT: llvm.call_intrinsic
// CHECK: return
func.func private @wide(%a: memref<20x11xf16>, %b: memref<11x30xf16>, %o: memref<20x30xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.fold #repro.fdpa<terms = 16, fraction = 30, round = rz_f32, floor = -138> maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] iterators [parallel, parallel, reduction] ins(%a, %b : memref<20x11xf16>, memref<11x30xf16>) outs(%o : memref<20x30xf32>) {
  ^bb0(%x: f16, %y: f16, %acc: f32):
    %p = arith.extf %x : f16 to f32
    %q = arith.extf %y : f16 to f32
    %r = math.fma %p, %q, %acc : f32
    repro.yield %r : f32
  }
  return
}

// CHECK-LABEL: @dot(
// CHECK-NOT: launch.tiles
// CHECK: return
func.func private @dot(%a: memref<64xf16>, %b: memref<64xf16>, %o: memref<f32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.fold #repro.fdpa<terms = 4, fraction = 23, round = rz_f32, floor = -131> maps [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction] ins(%a, %b : memref<64xf16>, memref<64xf16>) outs(%o : memref<f32>) {
  ^bb0(%x: f16, %y: f16, %acc: f32):
    %p = arith.extf %x : f16 to f32
    %q = arith.extf %y : f16 to f32
    %r = math.fma %p, %q, %acc : f32
    repro.yield %r : f32
  }
  return
}
