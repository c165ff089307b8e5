// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// (M5) Some block contractions are added in vectors of f64; the others are computed in integers, result by result.
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v2 | FileCheck %s --check-prefixes=CHECK,V2
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v4 | FileCheck %s --check-prefixes=CHECK,V4
// RUN: %repro-opt %s --repro-expand-kernels=level=aarch64 | FileCheck %s --check-prefixes=CHECK,ARM

// CHECK-LABEL: @scaled(
// V2: math.trunc {{.*}} : vector<2xf64>
// V3: math.trunc {{.*}} : vector<4xf64>
// V4: math.trunc {{.*}} : vector<8xf64>
// ARM: math.trunc {{.*}} : vector<2xf64>
// CHECK: return
func.func private @scaled(%x: memref<20x128xf8E4M3FN>, %s: memref<20x4xf32>, %y: memref<40x128xf8E4M3FN>, %t: memref<40x4xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction scaled block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133> elements = [f8E4M3FN, f8E4M3FN]
      ins(%x, %s, %y, %t : memref<20x128xf8E4M3FN>, memref<20x4xf32>, memref<40x128xf8E4M3FN>, memref<40x4xf32>) outs(%o : memref<20x40xf32>)
  return
}

// CHECK-LABEL: @groups(
// V2: math.trunc {{.*}} : vector<2xf64>
// V3: math.trunc {{.*}} : vector<4xf64>
// V4: math.trunc {{.*}} : vector<8xf64>
// ARM: math.trunc {{.*}} : vector<2xf64>
// CHECK: return
func.func private @groups(%x: memref<20x128xf8E4M3FN>, %s: memref<20x8xf8E4M3FN>, %y: memref<40x128xf8E4M3FN>, %t: memref<40x8xf8E4M3FN>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction scaled block = 16 rows = [1, 1] accumulator = #repro.fdpa<terms = 64, fraction = 35, round = rz_f32, floor = -133, group = 16> elements = [f4E2M1FN, f4E2M1FN]
      ins(%x, %s, %y, %t : memref<20x128xf8E4M3FN>, memref<20x8xf8E4M3FN>, memref<40x128xf8E4M3FN>, memref<40x8xf8E4M3FN>) outs(%o : memref<20x40xf32>)
  return
}

// CHECK-LABEL: @promoted(
// V2: math.trunc {{.*}} : vector<2xf64>
// V3: math.trunc {{.*}} : vector<4xf64>
// V4: math.trunc {{.*}} : vector<8xf64>
// ARM: math.trunc {{.*}} : vector<2xf64>
// CHECK: return
func.func private @promoted(%x: memref<20x256xf8E4M3FN>, %s: memref<20x2xf32>, %y: memref<40x256xf8E4M3FN>, %t: memref<40x2xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction fused block = 128 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 13, round = rz_e8m13, floor = -132> elements = [f8E4M3FN, f8E4M3FN]
      ins(%x, %s, %y, %t : memref<20x256xf8E4M3FN>, memref<20x2xf32>, memref<40x256xf8E4M3FN>, memref<40x2xf32>) outs(%o : memref<20x40xf32>)
  return
}

// f64 does not work here: a sum would be rounded twice on its way to f16.
// CHECK-LABEL: @f16(
// CHECK-NOT: math.trunc
// CHECK: return
func.func private @f16(%x: memref<20x128xf8E4M3FN>, %s: memref<20x4xf32>, %y: memref<40x128xf8E4M3FN>, %t: memref<40x4xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction scaled block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rne_f16, floor = -21> elements = [f8E4M3FN, f8E4M3FN]
      ins(%x, %s, %y, %t : memref<20x128xf8E4M3FN>, memref<20x4xf32>, memref<40x128xf8E4M3FN>, memref<40x4xf32>) outs(%o : memref<20x40xf32>)
  return
}

// CHECK-LABEL: @late(
// CHECK-NOT: math.trunc
// CHECK: return
func.func private @late(%x: memref<20x128xf8E4M3FN>, %s: memref<20x4xf32>, %y: memref<40x128xf8E4M3FN>, %t: memref<40x4xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction fused block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = -133, late = true> elements = [f8E4M3FN, f8E4M3FN]
      ins(%x, %s, %y, %t : memref<20x128xf8E4M3FN>, memref<20x4xf32>, memref<40x128xf8E4M3FN>, memref<40x4xf32>) outs(%o : memref<20x40xf32>)
  return
}

// CHECK-LABEL: @exact(
// CHECK-NOT: math.trunc
// CHECK: return
func.func private @exact(%x: memref<20x128xf8E4M3FN>, %s: memref<20x4xf32>, %y: memref<40x128xf8E4M3FN>, %t: memref<40x4xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction fused block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 16, round = rne_f32, floor = 0> elements = [f8E4M3FN, f8E4M3FN]
      ins(%x, %s, %y, %t : memref<20x128xf8E4M3FN>, memref<20x4xf32>, memref<40x128xf8E4M3FN>, memref<40x4xf32>) outs(%o : memref<20x40xf32>)
  return
}

// f64 does not work here: sums have 62 bits.
// CHECK-LABEL: @wide(
// CHECK-NOT: math.trunc
// CHECK: return
func.func private @wide(%x: memref<20x128xf8E4M3FN>, %s: memref<20x8xf32>, %y: memref<40x128xf8E4M3FN>, %t: memref<40x8xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction scaled block = 16 rows = [1, 1] accumulator = #repro.fdpa<terms = 64, fraction = 35, round = rz_f32, floor = -133, group = 16> elements = [f8E4M3FN, f8E4M3FN]
      ins(%x, %s, %y, %t : memref<20x128xf8E4M3FN>, memref<20x8xf32>, memref<40x128xf8E4M3FN>, memref<40x8xf32>) outs(%o : memref<20x40xf32>)
  return
}

// CHECK-LABEL: @many_groups(
// CHECK-NOT: math.trunc
// CHECK: return
func.func private @many_groups(%x: memref<20x128xf8E4M3FN>, %s: memref<20x8xf32>, %y: memref<40x128xf8E4M3FN>, %t: memref<40x8xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction scaled block = 16 rows = [1, 1] accumulator = #repro.fdpa<terms = 64, fraction = 25, round = rz_f32, floor = -133, group = 4> elements = [f4E2M1FN, f4E2M1FN]
      ins(%x, %s, %y, %t : memref<20x128xf8E4M3FN>, memref<20x8xf32>, memref<40x128xf8E4M3FN>, memref<40x8xf32>) outs(%o : memref<20x40xf32>)
  return
}

// CHECK-LABEL: @long_block(
// CHECK-NOT: math.trunc
// CHECK: return
func.func private @long_block(%x: memref<20x256xf8E4M3FN>, %s: memref<20x1xf32>, %y: memref<40x256xf8E4M3FN>, %t: memref<40x1xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction fused block = 256 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133> elements = [f8E4M3FN, f8E4M3FN]
      ins(%x, %s, %y, %t : memref<20x256xf8E4M3FN>, memref<20x1xf32>, memref<40x256xf8E4M3FN>, memref<40x1xf32>) outs(%o : memref<20x40xf32>)
  return
}
