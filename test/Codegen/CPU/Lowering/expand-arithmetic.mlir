// RUN: %repro-opt %s --repro-expand-arithmetic | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// (I1) Division by any divisor is expanded; division by a constant stays.

// CHECK-LABEL: func.func @division
// CHECK: %[[ZERO:.*]] = arith.cmpi eq, %[[Y:.*]], %{{.*}} : i32
// CHECK: %[[SAFE:.*]] = arith.select
// CHECK: %[[Q:.*]] = arith.divsi %{{.*}}, %[[SAFE]] : i32
// CHECK: arith.select %[[ZERO]], %{{.*}}, %[[Q]] : i32
func.func @division(%x: i32, %y: i32) -> i32 {
  %0 = arith.divsi %x, %y : i32
  return %0 : i32
}

// CHECK-LABEL: func.func @constant
// CHECK-NOT: arith.select
func.func @constant(%x: i32) -> (i32, i32) {
  %c = arith.constant 3 : i32
  %0 = arith.divsi %x, %c : i32
  %1 = arith.shli %x, %c : i32
  return %0, %1 : i32, i32
}

// CHECK-LABEL: func.func @shift
// CHECK: arith.cmpi ugt
// CHECK: arith.shrsi
func.func @shift(%x: vector<4xi32>, %y: vector<4xi32>) -> vector<4xi32> {
  %0 = arith.shrsi %x, %y : vector<4xi32>
  return %0 : vector<4xi32>
}

// (S3) Conversions saturate.

// CHECK-LABEL: func.func @saturate
// CHECK: llvm.call_intrinsic "llvm.fptosi.sat"
// CHECK: llvm.call_intrinsic "llvm.fptoui.sat"
func.func @saturate(%x: f32) -> (i32, i8) {
  %0 = arith.fptosi %x : f32 to i32
  %1 = arith.fptoui %x : f32 to i8
  return %0, %1 : i32, i8
}

// (S4) The remainder is exact.

// CHECK-LABEL: func.func @remainder
// CHECK: call @repro_fmod
func.func @remainder(%x: f32, %y: f32) -> f32 {
  %0 = arith.remf %x, %y : f32
  return %0 : f32
}

// (S3) One rounding from f64 to bf16: the value is rounded to odd in f32 first.

// CHECK-LABEL: func.func @narrow
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.cmpf one
// CHECK-NOT: to bf16
// CHECK: arith.bitcast %{{.*}} : i16 to bf16
func.func @narrow(%x: f64) -> bf16 {
  %0 = arith.truncf %x : f64 to bf16
  return %0 : bf16
}

// (V4) copysign reads the sign of a NaN as plus.

// CHECK-LABEL: func.func @copysign
// CHECK: %[[NAN:.*]] = arith.cmpf uno
// CHECK: %[[SIGN:.*]] = arith.select %[[NAN]]
// CHECK: math.copysign %{{.*}}, %[[SIGN]]
func.func @copysign(%x: f32, %y: f32) -> f32 {
  %0 = math.copysign %x, %y : f32
  return %0 : f32
}
