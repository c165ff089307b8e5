// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: %repro-opt %s -split-input-file --schedule --repro-expand-device-kernels=arch=sm_80 | FileCheck %s
// RUN: %repro-opt %s -split-input-file --schedule --repro-expand-device-kernels=arch=sm_75 | FileCheck %s --check-prefix=SM75

// SM75-NOT: nvvm.mma.sync

// Sums start with the bits of 1.5 * 2^21, whose last bit has the value 2^-2.
// CHECK-LABEL: gpu.module @device
// CHECK: %[[START:.*]] = arith.constant 1245708288 : i32
// CHECK: nvvm.mma.sync A[{{%.*, %.*, %.*, %.*}}] B[{{%.*, %.*}}] C[%[[START]], %[[START]], %[[START]], %[[START]]]
// CHECK-SAME: shape = #nvvm.shape<m = 16, n = 8, k = 32>
// CHECK-NOT: arith.sitofp
// CHECK: math.fma
func.func @main(%x: tensor<20x96xf4E2M1FN>, %sx: tensor<20x3xf8E8M0FNU>, %y: tensor<8x96xf4E2M1FN>, %sy: tensor<1x3xf8E8M0FNU>, %c: tensor<20x8xf32>) -> tensor<20x8xf32> attributes {repro.num_state = 0 : i64} {
  %0 = repro.block_contraction fused block = 32 rows = [1, 32]
      ins(%x, %sx, %y, %sy : tensor<20x96xf4E2M1FN>, tensor<20x3xf8E8M0FNU>, tensor<8x96xf4E2M1FN>, tensor<1x3xf8E8M0FNU>)
      outs(%c : tensor<20x8xf32>) -> tensor<20x8xf32>
  return %0 : tensor<20x8xf32>
}

// -----

// There is one instruction per block of 16, which uses no register of another block.
// CHECK-LABEL: gpu.module @device
// CHECK: nvvm.mma.sync A[{{%.*, %.*}}] B[{{%[^,]*}}] C[{{.*}} shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func @main(%x: tensor<20x96xf4E2M1FN>, %sx: tensor<20x6xf8E4M3FN>, %y: tensor<8x96xf4E2M1FN>, %sy: tensor<8x6xf8E4M3FN>, %c: tensor<20x8xf32>) -> tensor<20x8xf32> attributes {repro.num_state = 0 : i64} {
  %0 = repro.block_contraction split block = 16 rows = [1, 1]
      ins(%x, %sx, %y, %sy : tensor<20x96xf4E2M1FN>, tensor<20x6xf8E4M3FN>, tensor<8x96xf4E2M1FN>, tensor<8x6xf8E4M3FN>)
      outs(%c : tensor<20x8xf32>) -> tensor<20x8xf32>
  return %0 : tensor<20x8xf32>
}

// -----

// Sums may exceed the significand of a float.
// CHECK-LABEL: gpu.module @device
// CHECK: nvvm.mma.sync
// CHECK: arith.sitofp
func.func @main(%x: tensor<20x512xi8>, %sx: tensor<20x2xf32>, %y: tensor<8x512xi8>, %sy: tensor<8x2xf32>, %c: tensor<20x8xf32>) -> tensor<20x8xf32> attributes {repro.num_state = 0 : i64} {
  %0 = repro.block_contraction fused block = 256 rows = [1, 1] fraction_bits = 12
      ins(%x, %sx, %y, %sy : tensor<20x512xi8>, tensor<20x2xf32>, tensor<8x512xi8>, tensor<8x2xf32>)
      outs(%c : tensor<20x8xf32>) -> tensor<20x8xf32>
  return %0 : tensor<20x8xf32>
}

// -----

// Integers have two digits; the lower digit is unsigned.
// CHECK-LABEL: gpu.module @device
// CHECK-COUNT-8: multiplicandAPtxType = #nvvm.mma_type<u8>, multiplicandBPtxType = #nvvm.mma_type<s8>
// CHECK: multiplicandAPtxType = #nvvm.mma_type<s8>, multiplicandBPtxType = #nvvm.mma_type<s8>
func.func @main(%x: tensor<20x96xf6E3M2FN>, %sx: tensor<20x3xf32>, %y: tensor<8x96xf4E2M1FN>, %sy: tensor<8x3xf32>, %c: tensor<20x8xf32>) -> tensor<20x8xf32> attributes {repro.num_state = 0 : i64} {
  %0 = repro.block_contraction fused block = 32 rows = [1, 1]
      ins(%x, %sx, %y, %sy : tensor<20x96xf6E3M2FN>, tensor<20x3xf32>, tensor<8x96xf4E2M1FN>, tensor<8x3xf32>)
      outs(%c : tensor<20x8xf32>) -> tensor<20x8xf32>
  return %0 : tensor<20x8xf32>
}

// -----

// No matrix instructions for f8, for few rows, and for blocks that do not consist of whole steps.
// CHECK-LABEL: gpu.module @device
// CHECK-NOT: nvvm.mma.sync
func.func @main(%x: tensor<20x96xf8E4M3FN>, %sx: tensor<20x3xf32>, %y: tensor<8x96xf4E2M1FN>, %sy: tensor<8x3xf32>, %c: tensor<20x8xf32>, %z: tensor<7x96xf4E2M1FN>, %sz: tensor<7x3xf32>, %d: tensor<8x7xf32>, %sk: tensor<8x2xf32>, %e: tensor<8x8xf32>) -> (tensor<20x8xf32>, tensor<8x7xf32>, tensor<8x8xf32>) attributes {repro.num_state = 0 : i64} {
  %0 = repro.block_contraction fused block = 32 rows = [1, 1]
      ins(%x, %sx, %y, %sy : tensor<20x96xf8E4M3FN>, tensor<20x3xf32>, tensor<8x96xf4E2M1FN>, tensor<8x3xf32>)
      outs(%c : tensor<20x8xf32>) -> tensor<20x8xf32>
  %1 = repro.block_contraction fused block = 32 rows = [1, 1]
      ins(%y, %sy, %z, %sz : tensor<8x96xf4E2M1FN>, tensor<8x3xf32>, tensor<7x96xf4E2M1FN>, tensor<7x3xf32>)
      outs(%d : tensor<8x7xf32>) -> tensor<8x7xf32>
  %2 = repro.block_contraction fused block = 48 rows = [1, 1]
      ins(%y, %sk, %y, %sk : tensor<8x96xf4E2M1FN>, tensor<8x2xf32>, tensor<8x96xf4E2M1FN>, tensor<8x2xf32>)
      outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1, %2 : tensor<20x8xf32>, tensor<8x7xf32>, tensor<8x8xf32>
}
