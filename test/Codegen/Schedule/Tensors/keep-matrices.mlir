// (K4) For targets with matrix instructions on bytes, matrix products and the operations that make their factors stay.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(func.func(repro-decompose-exact{keep-matrices=true},repro-fuse-elementwise))' -split-input-file | FileCheck %s

// CHECK-LABEL: func @K4_matrices
// CHECK: %[[X:.*]] = linalg.generic
// CHECK: repro.fold #repro.exact<digits = 2> {{.*}} ins(%[[X]], %arg1 :
func.func @K4_matrices(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %e = tensor.empty() : tensor<8x8xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%a : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %m = arith.negf %x : f32
    linalg.yield %m : f32
  } -> tensor<8x8xf32>
  %0 = repro.fold #repro.exact<digits = 2>
      maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction]
      ins(%n, %b : tensor<8x8xf32>, tensor<8x8xf32>) outs(%c : tensor<8x8xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %1 = math.fma %x, %y, %acc : f32
    repro.yield %1 : f32
  } -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// CHECK-LABEL: func @K4_few_rows
// CHECK-NOT: #repro.exact
func.func @K4_few_rows(%a: tensor<7x8xf32>, %b: tensor<8x8xf32>, %c: tensor<7x8xf32>) -> tensor<7x8xf32> {
  %0 = repro.fold #repro.exact<digits = 2>
      maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction]
      ins(%a, %b : tensor<7x8xf32>, tensor<8x8xf32>) outs(%c : tensor<7x8xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %1 = math.fma %x, %y, %acc : f32
    repro.yield %1 : f32
  } -> tensor<7x8xf32>
  return %0 : tensor<7x8xf32>
}

// -----

// The integers of an element depend on the window.
// CHECK-LABEL: func @K4_windows
// CHECK-NOT: #repro.exact
func.func @K4_windows(%a: tensor<16x9xf32>, %b: tensor<8x9x3xf32>, %c: tensor<8x14xf32>) -> tensor<8x14xf32> {
  %t = tensor.empty() : tensor<9x16xf32>
  %x0 = linalg.transpose ins(%a : tensor<16x9xf32>) outs(%t : tensor<9x16xf32>) permutation = [1, 0]
  %0 = repro.fold #repro.exact<digits = 3>
      maps [affine_map<(o, p, i, k) -> (i, p + k)>, affine_map<(o, p, i, k) -> (o, i, k)>, affine_map<(o, p, i, k) -> (o, p)>]
      iterators [parallel, parallel, reduction, reduction]
      ins(%x0, %b : tensor<9x16xf32>, tensor<8x9x3xf32>) outs(%c : tensor<8x14xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %1 = math.fma %x, %y, %acc : f32
    repro.yield %1 : f32
  } -> tensor<8x14xf32>
  return %0 : tensor<8x14xf32>
}
