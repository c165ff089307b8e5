// RUN: %repro-opt %s --pass-pipeline='builtin.module(gpu.module(repro-convert-math-to-device))' -split-input-file \
// RUN:   -verify-diagnostics | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Each operation becomes one device instruction whose result is correctly rounded or exact.

// CHECK-LABEL: gpu.module @device
gpu.module @device {
  // CHECK: func.func @exact
  // CHECK-NOT: math.
  // CHECK: llvm.intr.fma
  // CHECK: llvm.call_intrinsic "llvm.sqrt"
  // CHECK: llvm.call_intrinsic "llvm.fabs"
  // CHECK: llvm.call_intrinsic "llvm.roundeven"
  // CHECK: return
  func.func @exact(%x: f32, %y: f64) -> (f32, f64) {
    %0 = math.fma %x, %x, %x : f32
    %1 = math.sqrt %0 : f32
    %2 = math.absf %1 : f32
    %3 = math.roundeven %y : f64
    return %2, %3 : f32, f64
  }
  // (S4) Ties go away from zero, and the sign of zero stays.
  // CHECK: func.func @round
  // CHECK: llvm.call_intrinsic "llvm.trunc"
  // CHECK: arith.cmpf oge
  // CHECK: %[[rounded:.*]] = arith.select
  // CHECK: llvm.call_intrinsic "llvm.copysign"(%[[rounded]], %{{.*}})
  func.func @round(%x: f32) -> f32 {
    %0 = math.round %x : f32
    return %0 : f32
  }
  // (S3) The device saturates to 32 bits; narrower results are clamped afterwards.
  // CHECK: func.func @narrow
  // CHECK: llvm.call_intrinsic "llvm.fptosi.sat"({{.*}}) : (f32) -> i32
  // CHECK: arith.minsi
  // CHECK: arith.maxsi
  // CHECK: arith.trunci %{{.*}} : i32 to i8
  func.func @narrow(%x: f32) -> i8 {
    %0 = llvm.call_intrinsic "llvm.fptosi.sat"(%x) : (f32) -> i8
    return %0 : i8
  }
}

// -----

gpu.module @device {
  func.func @sine(%x: f32) -> f32 {
    // expected-error @+1 {{'math.sin' op (V3) has no exact instruction for 'f32'}}
    %0 = math.sin %x : f32
    return %0 : f32
  }
}

// -----

gpu.module @device {
  func.func @half(%x: f16) -> f16 {
    // expected-error @+1 {{'math.sqrt' op (V3) has no exact instruction for 'f16'}}
    %0 = math.sqrt %x : f16
    return %0 : f16
  }
}
