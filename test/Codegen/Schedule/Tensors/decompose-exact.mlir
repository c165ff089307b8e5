// (K4) Both factors become integers; sums in f64 are exact; the result is rounded once to f32; init is added last.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(func.func(repro-decompose-exact))' -split-input-file | FileCheck %s

// CHECK-LABEL: func @K4_two_digits
// CHECK: %[[X:.*]] = repro.fold #repro.any_order {{.*}} ins(%arg0 : tensor<4x8xf32>) outs(%{{.*}} : tensor<4xf32>)
// CHECK: math.absf
// CHECK: arith.maximumf
// CHECK: %[[Y:.*]] = repro.fold #repro.any_order {{.*}} ins(%arg1 : tensor<8x16xf32>) outs(%{{.*}} : tensor<16xf32>)
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%arg0, %[[X]] : tensor<4x8xf32>, tensor<4xf32>) outs(%{{.*}} : tensor<4x8xf64>)
// CHECK: %[[BITS:.*]] = arith.constant 14 : i64
// CHECK: math.roundeven
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%arg1, %[[Y]] : tensor<8x16xf32>, tensor<16xf32>) outs(%{{.*}} : tensor<8x16xf64>)
// CHECK: %[[T:.*]] = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> {{.*}} ins(%[[Q]], %[[R]] : tensor<4x8xf64>, tensor<8x16xf64>)
// CHECK: math.fma %{{.*}}, %{{.*}}, %{{.*}} : f64
// CHECK: %[[OUT:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[Y]], %arg2, %[[T]] :
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.select
// CHECK: arith.addf
// CHECK: return %[[OUT]]
func.func @K4_two_digits(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %0 = repro.fold #repro.exact<digits = 2>
      maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction]
      ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %1 = math.fma %x, %y, %acc : f32
    repro.yield %1 : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// -----

// Three digits: one factor is split into a high and a low half, and both sums are added in i64.
// CHECK-LABEL: func @K4_three_digits
// CHECK-COUNT-2: repro.fold #repro.order<
// CHECK: arith.fptosi %{{.*}} : f64 to i64
// CHECK: arith.shli
// CHECK: arith.sitofp %{{.*}} : i64 to f64
func.func @K4_three_digits(%a: tensor<8xf32>, %c: tensor<f32>) -> tensor<f32> {
  %0 = repro.fold #repro.exact<digits = 3>
      maps [affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction]
      ins(%a : tensor<8xf32>) outs(%c : tensor<f32>) {
  ^bb0(%x: f32, %acc: f32):
    %1 = math.fma %x, %x, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// An element of an image has a different integer in each window, so the fold computes them. A window provides extents.
// CHECK-LABEL: func @K4_window
// CHECK: repro.fold #repro.any_order {{.*}} ins(%arg0, %{{.*}} : tensor<10xf32>, tensor<3xf32>) outs(%{{.*}} : tensor<8xf32>)
// CHECK: repro.fold #repro.order<{{.*}} ins(%arg0, %{{.*}}, %{{.*}} : tensor<10xf32>, tensor<8xf32>, tensor<3xf64>)
// CHECK: math.roundeven
// CHECK: math.fma
func.func @K4_window(%a: tensor<10xf32>, %w: tensor<3xf32>, %c: tensor<8xf32>) -> tensor<8xf32> {
  %0 = repro.fold #repro.exact<digits = 2>
      maps [affine_map<(i, k) -> (i + k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>]
      iterators [parallel, reduction]
      ins(%a, %w : tensor<10xf32>, tensor<3xf32>) outs(%c : tensor<8xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %1 = math.fma %x, %y, %acc : f32
    repro.yield %1 : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// An input that is not a factor only provides extents, here those of a square window.
// CHECK-LABEL: func @K4_extents
// CHECK: repro.fold #repro.any_order {{.*}} ins(%arg0, %{{.*}} : tensor<10xf32>, tensor<3xf32>) outs(%{{.*}} : tensor<8xf32>)
// CHECK: repro.fold #repro.order<{{.*}} ins(%arg1, %arg0, %{{.*}}, %arg0, %{{.*}} : tensor<3xbf16>, tensor<10xf32>
func.func @K4_extents(%a: tensor<10xf32>, %w: tensor<3xbf16>, %c: tensor<8xf32>) -> tensor<8xf32> {
  %0 = repro.fold #repro.exact<digits = 2>
      maps [affine_map<(i, k) -> (i + k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>]
      iterators [parallel, reduction]
      ins(%a, %w : tensor<10xf32>, tensor<3xbf16>) outs(%c : tensor<8xf32>) {
  ^bb0(%x: f32, %y: bf16, %acc: f32):
    %1 = math.fma %x, %x, %acc : f32
    repro.yield %1 : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// (F3) Without elements the result is the initial value, even -0.
// CHECK-LABEL: func @K4_empty
// CHECK-NEXT: return %arg1
func.func @K4_empty(%a: tensor<0xf32>, %c: tensor<f32>) -> tensor<f32> {
  %0 = repro.fold #repro.exact<digits = 3>
      maps [affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction]
      ins(%a : tensor<0xf32>) outs(%c : tensor<f32>) {
  ^bb0(%x: f32, %acc: f32):
    %1 = math.fma %x, %x, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}
