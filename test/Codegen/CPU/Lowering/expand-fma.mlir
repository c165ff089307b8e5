// RUN: %repro-opt %s --repro-expand-fma | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// (S1) For f32, the product is exact in f64, and the sum is rounded to odd before the final rounding.

// CHECK: func.func private @repro_fma(f64, f64, f64) -> f64
// CHECK-LABEL: func.func @single
// CHECK-NOT: math.fma
// CHECK: arith.mulf %{{.*}} : vector<8xf64>
// CHECK: arith.addf %{{.*}} : vector<8xf64>
// CHECK: arith.cmpf one
// CHECK: arith.truncf %{{.*}} : vector<8xf64> to vector<8xf32>
func.func @single(%a: vector<8xf32>, %b: vector<8xf32>, %c: vector<8xf32>) -> vector<8xf32> {
  %0 = math.fma %a, %b, %c : vector<8xf32>
  return %0 : vector<8xf32>
}

// CHECK-LABEL: func.func @double
// CHECK-NOT: math.fma
// CHECK: call @repro_fma
func.func @double(%a: f64, %b: f64, %c: f64) -> f64 {
  %0 = math.fma %a, %b, %c : f64
  return %0 : f64
}
