// TOSA's scatter of rows, which upstream does not lower.
// RUN: %repro-opt --convert-tosa-to-repro %s -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @rows
// CHECK-SAME: %[[OLD:.*]]: tensor<2x7x5xf32>, %[[AT:.*]]: tensor<2x3xi32>, %[[NEW:.*]]: tensor<2x3x5xf32>
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[NEW]] {{\[}}[0, 1], [2]] : tensor<2x3x5xf32> into tensor<6x5xf32>
// CHECK: linalg.generic {{.*}} ins(%[[AT]] : tensor<2x3xi32>) outs(%{{.*}} : tensor<2x3x2xi32>)
// CHECK: arith.select
// CHECK: %[[PLACES:.*]] = tensor.collapse_shape %{{.*}} into tensor<6x2xi32>
// CHECK: repro.scatter replace ins(%[[ROWS]], %[[PLACES]] : tensor<6x5xf32>, tensor<6x2xi32>) outs(%[[OLD]]
func.func @rows(%x: tensor<2x7x5xf32>, %i: tensor<2x3xi32>, %y: tensor<2x3x5xf32>) -> tensor<2x7x5xf32> {
  %r = tosa.scatter %x, %i, %y : (tensor<2x7x5xf32>, tensor<2x3xi32>, tensor<2x3x5xf32>) -> tensor<2x7x5xf32>
  return %r : tensor<2x7x5xf32>
}

// -----

func.func @sizes(%x: tensor<2x7x5xf32>, %i: tensor<2x?xi32>, %y: tensor<2x?x5xf32>) -> tensor<2x7x5xf32> {
  // expected-error @+1 {{'tosa.scatter' op expected static shapes, got 'tensor<2x?xi32>'}}
  %r = tosa.scatter %x, %i, %y : (tensor<2x7x5xf32>, tensor<2x?xi32>, tensor<2x?x5xf32>) -> tensor<2x7x5xf32>
  return %r : tensor<2x7x5xf32>
}
