// From a canonical program to launches and PTX.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(gpu{arch=sm_90})' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#id = affine_map<(i) -> (i)>

// The plan stays until the end, next to the text of all kernels.

// CHECK: launch.plan @main states(%[[S:.*]]: memref<16xf32> {repro.name = "s"}) inputs(%[[X:.*]]: memref<16xf32>)
// CHECK-NEXT: %[[C:.*]] = launch.constant
// CHECK-NEXT: launch.dispatch @device::@kernel_0(%[[X]], %[[C]], %[[S]]) grid [1, 1, 1] block [32, 1, 1]
// CHECK-NEXT: }
// CHECK-NEXT: gpu.binary @device [#gpu.object<#nvvm.target<O = 3, chip = "sm_90">, assembly = "
// CHECK-SAME: .target sm_90
// CHECK-SAME: .visible .entry kernel_0(
// CHECK-SAME: add.rn.f32
// CHECK-SAME: st.global.b32
// CHECK-NOT: gpu.module
func.func @main(%s: tensor<16xf32> {repro.name = "s"}, %x: tensor<16xf32>) -> tensor<16xf32> attributes {repro.num_state = 1 : i64} {
  %c = arith.constant dense<[0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.]> : tensor<16xf32>
  %e = tensor.empty() : tensor<16xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %c : tensor<16xf32>, tensor<16xf32>) outs(%e : tensor<16xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %r = arith.addf %u, %v : f32
    linalg.yield %r : f32
  } -> tensor<16xf32>
  return %y : tensor<16xf32>
}
