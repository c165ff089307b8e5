// (S5) Elementary functions become repro functions before any pass can fold them; exact operations stay.
// RUN: %repro-opt --convert-math-to-repro %s | FileCheck %s

// CHECK: func.func @unary(%[[X:[a-z0-9]+]]: f32)
func.func @unary(%x: f32) -> f32 {
  // CHECK-NEXT: %[[A:.*]] = repro.exp %[[X]] : f32
  %a = math.exp %x : f32
  // CHECK-NEXT: %[[B:.*]] = repro.expm1 %[[A]]
  %b = math.expm1 %a fastmath<fast> : f32
  // CHECK-NEXT: repro.log1p
  %c = math.log1p %b : f32
  // CHECK-NEXT: repro.rsqrt
  %d = math.rsqrt %c : f32
  // CHECK-NEXT: repro.tanh
  %e = math.tanh %d : f32
  // CHECK-NEXT: repro.erf
  %f = math.erf %e : f32
  // CHECK-NEXT: repro.cbrt
  %g = math.cbrt %f : f32
  // CHECK-NEXT: math.sqrt
  %h = math.sqrt %g : f32
  // CHECK-NEXT: math.roundeven
  %i = math.roundeven %h : f32
  return %i : f32
}

// CHECK: func.func @double(%[[X:[a-z0-9]+]]: f64)
func.func @double(%x: f64) -> f64 {
  // CHECK-NEXT: %[[A:.*]] = repro.exp %[[X]] : f64
  %a = math.exp %x : f64
  // CHECK-NEXT: repro.sin %[[A]] : f64
  // CHECK-NEXT: repro.cos %[[A]] : f64
  %s, %c = math.sincos %a : f64
  %0 = arith.addf %s, %c : f64
  return %0 : f64
}

// The host's libm must not evaluate the function of a constant.
// CHECK: func.func @constant
func.func @constant() -> f32 {
  // CHECK-NEXT: %[[C:.*]] = arith.constant 2.000000e+00 : f32
  %c = arith.constant 2.0 : f32
  // CHECK-NEXT: repro.log %[[C]] : f32
  %0 = math.log %c : f32
  return %0 : f32
}

// CHECK: func.func @binary(%[[X:[a-z0-9]+]]: bf16, %[[Y:[a-z0-9]+]]: bf16, %[[N:[a-z0-9]+]]: i32)
func.func @binary(%x: bf16, %y: bf16, %n: i32) -> bf16 {
  // CHECK-NEXT: %[[P:.*]] = repro.pow %[[X]], %[[Y]] : bf16
  %0 = math.powf %x, %y : bf16
  // CHECK-NEXT: %[[Q:.*]] = repro.powi %[[P]], %[[N]] : bf16, i32
  %1 = math.fpowi %0, %n : bf16, i32
  // CHECK-NEXT: repro.atan2 %[[Q]], %[[Y]] : bf16
  %2 = math.atan2 %1, %y : bf16
  return %2 : bf16
}

// CHECK: func.func @sincos(%[[X:[a-z0-9]+]]: f32)
func.func @sincos(%x: f32) -> (f32, f32) {
  // CHECK-DAG: repro.sin %[[X]]
  // CHECK-DAG: repro.cos %[[X]]
  %s, %c = math.sincos %x : f32
  return %s, %c : f32, f32
}
