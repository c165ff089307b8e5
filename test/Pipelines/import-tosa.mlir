// RUN: %repro-opt --pass-pipeline='builtin.module(import-tosa,canonical)' %s | FileCheck %s

// CHECK: func.func @main
// CHECK: repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
// CHECK: math.fma
// CHECK: linalg.generic
// CHECK: repro.tanh
// CHECK: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
func.func @main(%x: tensor<1x4x8xf32>, %w: tensor<1x8x16xf32>) -> tensor<1x4x1xf32> attributes {repro.num_state = 0 : i64} {
  %zp = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.matmul %x, %w, %zp, %zp : (tensor<1x4x8xf32>, tensor<1x8x16xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x16xf32>
  %1 = tosa.tanh %0 : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32>
  %2 = tosa.reduce_sum %1 {axis = 2 : i32} : (tensor<1x4x16xf32>) -> tensor<1x4x1xf32>
  return %2 : tensor<1x4x1xf32>
}
