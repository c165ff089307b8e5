// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// (Q4) The instructions by which each level multiplies integers, and the sums that fit into i16.
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v2 | FileCheck %s --check-prefixes=CHECK,V2
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v4 | FileCheck %s --check-prefixes=CHECK,V4
// RUN: %repro-opt %s --repro-expand-kernels=level=x86-64-v4-vnni | FileCheck %s --check-prefixes=CHECK,VNNI
// RUN: %repro-opt %s --repro-expand-kernels=level=aarch64 | FileCheck %s --check-prefixes=CHECK,ARM
// RUN: %repro-opt %s --repro-expand-kernels=level=aarch64-dotprod | FileCheck %s --check-prefixes=CHECK,DOT

// Two sums per panel correct for the unsigned bytes; then 8 words of 8 results, whose sums fit into i16.
// CHECK-LABEL: @whole_block(
// V2-COUNT-66: "llvm.x86.ssse3.pmadd.ub.sw.128"
// V2-COUNT-8: "llvm.x86.sse2.pmadd.wd"
// V3-COUNT-66: "llvm.x86.avx2.pmadd.ub.sw"
// V3-COUNT-8: "llvm.x86.avx2.pmadd.wd"
// V4-COUNT-66: "llvm.x86.avx512.pmaddubs.w.512"
// V4-COUNT-8: "llvm.x86.avx512.pmaddw.d.512"
// VNNI-NOT: pmadd
// VNNI-COUNT-82: "llvm.x86.avx512.vpdpbusd.512"
// DOT-NOT: arith.muli {{.*}} : vector
// DOT-COUNT-80: "llvm.aarch64.neon.sdot.v4i32.v16i8"
// ARM-COUNT-64: arith.muli {{.*}} : vector<16xi16>
// ARM-COUNT-2: "llvm.aarch64.neon.saddlp.v4i32.v8i16"
// ARM: "llvm.aarch64.neon.addp.v4i32"
// CHECK: return
func.func private @whole_block(%x: memref<20x64xi8>, %s: memref<20x2xf32>, %y: memref<40x64xi8>, %t: memref<40x2xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 2 magnitudes = [12, 12]
      ins(%x, %s, %y, %t : memref<20x64xi8>, memref<20x2xf32>, memref<40x64xi8>, memref<40x2xf32>) outs(%o : memref<20x40xf32>)
  return
}

// 8 * 2 * 60 * 60 exceeds i16, 4 * 2 * 60 * 60 does not. On Arm an instruction adds no products: 8 * 60 * 60.
// CHECK-LABEL: @half_blocks(
// V2-COUNT-34: "llvm.x86.ssse3.pmadd.ub.sw.128"
// V2-COUNT-8: "llvm.x86.sse2.pmadd.wd"
// V2-COUNT-32: "llvm.x86.ssse3.pmadd.ub.sw.128"
// V2-COUNT-8: "llvm.x86.sse2.pmadd.wd"
// V3-COUNT-34: "llvm.x86.avx2.pmadd.ub.sw"
// V3-COUNT-8: "llvm.x86.avx2.pmadd.wd"
// V3-COUNT-32: "llvm.x86.avx2.pmadd.ub.sw"
// V3-COUNT-8: "llvm.x86.avx2.pmadd.wd"
// V4-COUNT-34: "llvm.x86.avx512.pmaddubs.w.512"
// V4-COUNT-8: "llvm.x86.avx512.pmaddw.d.512"
// V4-COUNT-32: "llvm.x86.avx512.pmaddubs.w.512"
// V4-COUNT-8: "llvm.x86.avx512.pmaddw.d.512"
// VNNI-NOT: pmadd
// VNNI-COUNT-82: "llvm.x86.avx512.vpdpbusd.512"
// DOT-NOT: arith.muli {{.*}} : vector
// DOT-COUNT-80: "llvm.aarch64.neon.sdot.v4i32.v16i8"
// ARM-COUNT-64: arith.muli {{.*}} : vector<16xi16>
// ARM-COUNT-2: "llvm.aarch64.neon.saddlp.v4i32.v8i16"
// ARM: "llvm.aarch64.neon.addp.v4i32"
// CHECK: return
func.func private @half_blocks(%x: memref<20x64xi8>, %s: memref<20x2xf32>, %y: memref<40x64xi8>, %t: memref<40x2xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 6 magnitudes = [60, 60]
      ins(%x, %s, %y, %t : memref<20x64xi8>, memref<20x2xf32>, memref<40x64xi8>, memref<40x2xf32>) outs(%o : memref<20x40xf32>)
  return
}

// 2 * 255 * 64 does not saturate; the sums of two words, 2 * 2 * 127 * 64, fit into i16.
// CHECK-LABEL: @two_words(
// V2-COUNT-18: "llvm.x86.ssse3.pmadd.ub.sw.128"
// V2-COUNT-8: "llvm.x86.sse2.pmadd.wd"
// V2-COUNT-16: "llvm.x86.ssse3.pmadd.ub.sw.128"
// V2-COUNT-8: "llvm.x86.sse2.pmadd.wd"
// V3-COUNT-18: "llvm.x86.avx2.pmadd.ub.sw"
// V3-COUNT-8: "llvm.x86.avx2.pmadd.wd"
// V3-COUNT-16: "llvm.x86.avx2.pmadd.ub.sw"
// V3-COUNT-8: "llvm.x86.avx2.pmadd.wd"
// V4-COUNT-18: "llvm.x86.avx512.pmaddubs.w.512"
// V4-COUNT-8: "llvm.x86.avx512.pmaddw.d.512"
// V4-COUNT-16: "llvm.x86.avx512.pmaddubs.w.512"
// V4-COUNT-8: "llvm.x86.avx512.pmaddw.d.512"
// ARM-COUNT-32: arith.muli {{.*}} : vector<16xi16>
// ARM-COUNT-2: "llvm.aarch64.neon.saddlp.v4i32.v8i16"
// ARM: "llvm.aarch64.neon.addp.v4i32"
// CHECK: return
func.func private @two_words(%x: memref<20x64xi8>, %s: memref<20x2xf32>, %y: memref<40x64xi8>, %t: memref<40x2xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 6 magnitudes = [127, 64]
      ins(%x, %s, %y, %t : memref<20x64xi8>, memref<20x2xf32>, memref<40x64xi8>, memref<40x2xf32>) outs(%o : memref<20x40xf32>)
  return
}

// Larger magnitudes, and integers of unknown magnitude, are multiplied as i16.
// CHECK-LABEL: @saturating(
// V2-NOT: pmadd{{.?ub}}
// V3-NOT: pmadd{{.?ub}}
// V4-NOT: pmadd{{.?ub}}
// V2-COUNT-128: "llvm.x86.sse2.pmadd.wd"
// V3-COUNT-128: "llvm.x86.avx2.pmadd.wd"
// V4-COUNT-128: "llvm.x86.avx512.pmaddw.d.512"
// VNNI-NOT: pmadd
// VNNI-COUNT-82: "llvm.x86.avx512.vpdpbusd.512"
// DOT-NOT: arith.muli {{.*}} : vector
// DOT-COUNT-80: "llvm.aarch64.neon.sdot.v4i32.v16i8"
// CHECK: return
func.func private @saturating(%x: memref<20x64xi8>, %s: memref<20x2xf32>, %y: memref<40x64xi8>, %t: memref<40x2xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 6 magnitudes = [128, 64]
      ins(%x, %s, %y, %t : memref<20x64xi8>, memref<20x2xf32>, memref<40x64xi8>, memref<40x2xf32>) outs(%o : memref<20x40xf32>)
  return
}

// CHECK-LABEL: @any_bytes(
// V2-NOT: pmadd{{.?ub}}
// V3-NOT: pmadd{{.?ub}}
// V4-NOT: pmadd{{.?ub}}
// V2-COUNT-128: "llvm.x86.sse2.pmadd.wd"
// V3-COUNT-128: "llvm.x86.avx2.pmadd.wd"
// V4-COUNT-128: "llvm.x86.avx512.pmaddw.d.512"
// VNNI-NOT: pmadd
// VNNI-COUNT-82: "llvm.x86.avx512.vpdpbusd.512"
// DOT-NOT: arith.muli {{.*}} : vector
// DOT-COUNT-80: "llvm.aarch64.neon.sdot.v4i32.v16i8"
// ARM-NOT: i16>
// ARM-COUNT-8: arith.muli {{.*}} : vector<4xi32>
// CHECK: return
func.func private @any_bytes(%x: memref<20x64xi8>, %s: memref<20x2xf32>, %y: memref<40x64xi8>, %t: memref<40x2xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 12
      ins(%x, %s, %y, %t : memref<20x64xi8>, memref<20x2xf32>, memref<40x64xi8>, memref<40x2xf32>) outs(%o : memref<20x40xf32>)
  return
}

// If the machine adds products of bytes, one instruction multiplies pairs of i16 and adds them to the sum.
// CHECK-LABEL: @words(
// V4-COUNT-64: "llvm.x86.avx512.pmaddw.d.512"
// VNNI-NOT: pmadd
// VNNI-COUNT-64: "llvm.x86.avx512.vpdpwssd.512"
// CHECK: return
func.func private @words(%x: memref<20x64xi16>, %s: memref<20x2xf32>, %y: memref<40x64xi16>, %t: memref<40x2xf32>, %o: memref<20x40xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 8
      ins(%x, %s, %y, %t : memref<20x64xi16>, memref<20x2xf32>, memref<40x64xi16>, memref<40x2xf32>) outs(%o : memref<20x40xf32>)
  return
}
