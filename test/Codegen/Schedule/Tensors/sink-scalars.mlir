// RUN: %repro-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(repro-sink-scalars))' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A scalar that a body captures becomes an operand of rank 0; a constant moves into the body.

// CHECK-LABEL: func.func @capture
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[S:.*]]: tensor<f32>)
// CHECK-NOT: tensor.extract
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[X]], %[[S]] : tensor<4xf32>, tensor<f32>)
// CHECK: arith.constant 2.0
// CHECK: arith.mulf
func.func @capture(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
  %c = arith.constant 2.0 : f32
  %v = tensor.extract %s[] : tensor<f32>
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.mulf %a, %v : f32
    %1 = arith.addf %0, %c : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// A computation on scalars becomes a generic of rank 0.

// CHECK-LABEL: func.func @computed
// CHECK: %[[T:.*]] = linalg.generic {{.*}} iterator_types = []
// CHECK: arith.addf
// CHECK: linalg.yield
// CHECK: linalg.generic
// CHECK-SAME: ins(%{{.*}}, %[[T]] : tensor<4xf32>, tensor<f32>)
func.func @computed(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
  %v = tensor.extract %s[] : tensor<f32>
  %w = arith.addf %v, %v : f32
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.mulf %a, %w : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// (E1) An assertion between structured operations moves into a body.

// CHECK-LABEL: func.func @assertion
// CHECK: linalg.generic
// CHECK: cf.assert %{{.*}}, "too small"
// CHECK: linalg.yield
// CHECK-NOT: cf.assert
func.func @assertion(%s: tensor<i64>) -> tensor<i64> {
  %c0 = arith.constant 0 : i64
  %v = tensor.extract %s[] : tensor<i64>
  %ok = arith.cmpi sge, %v, %c0 : i64
  cf.assert %ok, "too small"
  return %s : tensor<i64>
}

// -----

// Equal elements that are inserted become a fill, not a constant.

// CHECK-LABEL: func.func @inserted
// CHECK: %[[F:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2xf32>)
// CHECK: tensor.insert_slice %[[F]] into %arg0[1] [2] [1]
func.func @inserted(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant dense<1.0> : tensor<2xf32>
  %r = tensor.insert_slice %c into %x[1] [2] [1] : tensor<2xf32> into tensor<4xf32>
  return %r : tensor<4xf32>
}
