// RUN: %repro-opt %s --pass-pipeline='builtin.module(func.func(repro-decompose-random))' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// (R1) Philox4x32-10 of the row-major position; (R2) the upper 24 bits become a
// fraction.

// CHECK-LABEL: func.func @main
// CHECK: linalg.generic
// CHECK-DAG: linalg.index 0
// CHECK-DAG: linalg.index 1
// CHECK: arith.constant 3449720151 : i64
// CHECK: arith.constant -845247145 : i32
// CHECK: arith.constant 3528531795 : i64
// CHECK: arith.constant -766435501 : i32
// CHECK-COUNT-10: arith.constant -1640531527 : i32
// CHECK: arith.constant 5.96046448E-8 : f32
// CHECK: linalg.generic
// CHECK-NOT: repro.random
func.func @main(%seed: tensor<i64>, %step: tensor<i64>) -> (tensor<i64>, tensor<i64>, tensor<4x8xf32>, tensor<5xi32>)
    attributes {repro.num_state = 2 : i64} {
  %s = tensor.extract %seed[] : tensor<i64>
  %n = tensor.extract %step[] : tensor<i64>
  %e = tensor.empty() : tensor<4x8xf32>
  %u = repro.random uniform site = 3 ins(%s, %n : i64, i64) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %f = tensor.empty() : tensor<5xi32>
  %b = repro.random bits site = 4 ins(%s, %n : i64, i64) outs(%f : tensor<5xi32>) -> tensor<5xi32>
  return %seed, %step, %u, %b : tensor<i64>, tensor<i64>, tensor<4x8xf32>, tensor<5xi32>
}
