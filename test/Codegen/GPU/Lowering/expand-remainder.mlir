// RUN: %repro-opt %s --pass-pipeline='builtin.module(gpu.module(repro-expand-remainder))' -split-input-file \
// RUN:   -verify-diagnostics | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// (S4) The loop runs on the significands as integers; its trip count is the difference of the exponents.

// CHECK-LABEL: gpu.module @device
gpu.module @device {
  // CHECK: func.func @single
  // CHECK-NOT: arith.remf
  // CHECK-COUNT-2: arith.bitcast %{{.*}} : f32 to i32
  // CHECK: math.ctlz
  // CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%{{.*}} = %{{.*}}) -> (i32)
  // CHECK: arith.constant 2143289344 : i32
  // CHECK: arith.bitcast %{{.*}} : i32 to f32
  func.func @single(%x: f32, %y: f32) -> f32 {
    %0 = arith.remf %x, %y : f32
    return %0 : f32
  }
  // CHECK: func.func @double
  // CHECK-NOT: arith.remf
  // CHECK: scf.for {{.*}} -> (i64)
  // CHECK: arith.bitcast %{{.*}} : i64 to f64
  func.func @double(%x: f64, %y: f64) -> f64 {
    %0 = arith.remf %x, %y : f64
    return %0 : f64
  }
}

// -----

gpu.module @device {
  func.func @vector(%x: vector<4xf32>) -> vector<4xf32> {
    // expected-error @+1 {{(S4) expected a scalar, got 'vector<4xf32>'}}
    %0 = arith.remf %x, %x : vector<4xf32>
    return %0 : vector<4xf32>
  }
}
