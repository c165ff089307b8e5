// (S5) Elementary functions become arith, math.fma and bit operations, the same
// for scalars and for vectors; no calls and no approximations remain.
// RUN: %repro-opt %s --repro-expand-functions --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @scalar
// CHECK-NOT: repro.
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: math.fma %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK-NOT: math.{{(exp|log|tanh)}}
// CHECK: return
func.func @scalar(%x: f32) -> f32 {
  %0 = repro.exp %x : f32
  %1 = repro.log %0 : f32
  %2 = repro.tanh %1 : f32
  return %2 : f32
}

// -----

// CHECK-LABEL: func.func @vector
// CHECK: arith.extf %{{.*}} : vector<2x4xf32> to vector<2x4xf64>
// CHECK: math.fma %{{.*}} : vector<2x4xf64>
// CHECK-NOT: repro.
// CHECK: return
func.func @vector(%x: vector<2x4xf32>) -> vector<2x4xf32> {
  %0 = repro.erf %x : vector<2x4xf32>
  return %0 : vector<2x4xf32>
}

// -----

// A branch handles huge angles if any lane has one.
// CHECK-LABEL: func.func @branch
// CHECK: %[[FLAT:.*]] = vector.shape_cast %{{.*}} : vector<2x8xi1> to vector<16xi1>
// CHECK: %[[ANY:.*]] = vector.reduction <or>, %[[FLAT]] : vector<16xi1> into i1
// CHECK: scf.if %[[ANY]]
func.func @branch(%x: vector<2x8xf32>) -> vector<2x8xf32> {
  %0 = repro.sin %x : vector<2x8xf32>
  return %0 : vector<2x8xf32>
}

// -----

// CHECK-LABEL: func.func @powers
// CHECK-NOT: repro.
// CHECK: arith.extsi %{{.*}} : vector<4xi16> to vector<4xi64>
// CHECK-NOT: repro.
// CHECK: return
func.func @powers(%x: vector<4xf32>, %n: vector<4xi16>, %y: f32, %i: i64) -> (vector<4xf32>, f32) {
  %0 = repro.powi %x, %n : vector<4xf32>, vector<4xi16>
  %1 = repro.powi %y, %i : f32, i64
  return %0, %1 : vector<4xf32>, f32
}

// -----

// Every function has a formula.
// CHECK-LABEL: func.func @every
// CHECK-NOT: {{repro\.|call}}
// CHECK: return
func.func @every(%x: f32, %y: f32) -> f32 {
  %0 = repro.acos %x : f32
  %1 = repro.acosh %0 : f32
  %2 = repro.asin %1 : f32
  %3 = repro.asinh %2 : f32
  %4 = repro.atan %3 : f32
  %5 = repro.atanh %4 : f32
  %6 = repro.cbrt %5 : f32
  %7 = repro.cos %6 : f32
  %8 = repro.cosh %7 : f32
  %9 = repro.erf %8 : f32
  %10 = repro.erfc %9 : f32
  %11 = repro.exp %10 : f32
  %12 = repro.exp10 %11 : f32
  %13 = repro.exp2 %12 : f32
  %14 = repro.expm1 %13 : f32
  %15 = repro.log %14 : f32
  %16 = repro.log10 %15 : f32
  %17 = repro.log1p %16 : f32
  %18 = repro.log2 %17 : f32
  %19 = repro.rsqrt %18 : f32
  %20 = repro.sin %19 : f32
  %21 = repro.sinh %20 : f32
  %22 = repro.tan %21 : f32
  %23 = repro.tanh %22 : f32
  %24 = repro.atan2 %23, %y : f32
  %25 = repro.hypot %24, %y : f32
  %26 = repro.pow %25, %y : f32
  return %26 : f32
}

// -----

// Functions of f64 become integer arithmetic without fma, which rounds the result's bits.
// CHECK-LABEL: func.func @double
// CHECK-NOT: {{repro\.|call|math.fma}}
// CHECK: arith.muli %{{.*}} : vector<8xi64>
// CHECK: arith.bitcast %{{.*}} : vector<8xi64> to vector<8xf64>
// CHECK: return
func.func @double(%x: vector<8xf64>) -> vector<8xf64> {
  %0 = repro.exp %x : vector<8xf64>
  return %0 : vector<8xf64>
}
