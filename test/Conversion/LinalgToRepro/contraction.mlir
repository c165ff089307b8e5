// (K1), (K2) Named contractions and convolutions become folds of math.fma.
// RUN: %repro-opt --convert-linalg-to-repro %s | FileCheck %s

// CHECK-DAG: #[[MK:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[KN:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG: #[[MN:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 * 2 + d5, d3 * 2 + d6)>
// CHECK-DAG: #[[KERNEL:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>

// CHECK: func.func @K1_matmul(%[[A:[a-z0-9]+]]: tensor<4x8xf32>, %[[B:[a-z0-9]+]]: tensor<8x16xf32>, %[[C:[a-z0-9]+]]: tensor<4x16xf32>)
func.func @K1_matmul(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
  // CHECK-NEXT: repro.fold
  // CHECK-SAME: maps [#[[MK]], #[[KN]], #[[MN]]] iterators [parallel, parallel, reduction]
  // CHECK-SAME: ins(%[[A]], %[[B]] : tensor<4x8xf32>, tensor<8x16xf32>) outs(%[[C]] : tensor<4x16xf32>)
  // CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32, %[[ACC:.*]]: f32):
  // CHECK-NEXT: %[[R:.*]] = math.fma %[[X]], %[[Y]], %[[ACC]] : f32
  // CHECK-NEXT: repro.yield %[[R]] : f32
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// (F7) Factors convert exactly to the accumulator's type; the accumulator of a narrow result is f32.
// CHECK: func.func @F7_matmul_bf16
func.func @F7_matmul_bf16(%a: tensor<4x8xbf16>, %b: tensor<8x16xbf16>, %c: tensor<4x16xbf16>) -> tensor<4x16xbf16> {
  // CHECK: ^bb0(%[[X:.*]]: bf16, %[[Y:.*]]: bf16, %[[ACC:.*]]: f32):
  // CHECK-NEXT: %[[WX:.*]] = arith.extf %[[X]] : bf16 to f32
  // CHECK-NEXT: %[[WY:.*]] = arith.extf %[[Y]] : bf16 to f32
  // CHECK-NEXT: %[[R:.*]] = math.fma %[[WX]], %[[WY]], %[[ACC]] : f32
  // CHECK-NEXT: repro.yield %[[R]] : f32
  // CHECK-NEXT: } -> tensor<4x16xbf16>
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x16xbf16>) outs(%c : tensor<4x16xbf16>) -> tensor<4x16xbf16>
  return %0 : tensor<4x16xbf16>
}

// CHECK: func.func @K1_matmul_bf16_f32
func.func @K1_matmul_bf16_f32(%a: tensor<4x8xbf16>, %b: tensor<8x16xbf16>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
  // CHECK: ^bb0(%[[X:.*]]: bf16, %[[Y:.*]]: bf16, %[[ACC:.*]]: f32):
  // CHECK: math.fma %{{.*}}, %{{.*}}, %[[ACC]] : f32
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x16xbf16>) outs(%c : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// (F5) Integers have no fma, and their sums may have any order.
// CHECK: func.func @F5_matmul_i8
func.func @F5_matmul_i8(%a: tensor<4x8xi8>, %b: tensor<8x16xi8>, %c: tensor<4x16xi32>) -> tensor<4x16xi32> {
  // CHECK-NEXT: repro.fold maps
  // CHECK: arith.muli
  // CHECK: arith.addi
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xi8>, tensor<8x16xi8>) outs(%c : tensor<4x16xi32>) -> tensor<4x16xi32>
  return %0 : tensor<4x16xi32>
}

// (K3) The reduction runs over input channel, kernel height, kernel width; the bias is the initial operand.
// CHECK: func.func @K2_convolution
func.func @K2_convolution(%x: tensor<2x3x9x9xf32>, %w: tensor<4x3x3x3xf32>, %bias: tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK-NEXT: repro.fold
  // CHECK-SAME: maps [#[[IMAGE]], #[[KERNEL]], #{{.*}}] iterators [parallel, parallel, parallel, parallel, reduction, reduction, reduction]
  // CHECK: math.fma
  %0 = linalg.conv_2d_nchw_fchw {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%x, %w : tensor<2x3x9x9xf32>, tensor<4x3x3x3xf32>) outs(%bias : tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %0 : tensor<2x4x4x4xf32>
}

// The operands may have any order, and both factors may be the same argument; only block arguments are factors.
#v = affine_map<(d0) -> (d0)>
#s = affine_map<(d0) -> ()>
// CHECK: func.func @K1_operand_order
func.func @K1_operand_order(%x: tensor<8xf32>, %y: tensor<8xf32>, %c: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  // CHECK: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32, %[[ACC:.*]]: f32):
  // CHECK-NEXT: math.fma %[[Y]], %[[X]], %[[ACC]]
  %0 = linalg.generic {indexing_maps = [#v, #v, #s], iterator_types = ["reduction"]}
      ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%c : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %b, %a : f32
    %q = arith.addf %p, %acc : f32
    linalg.yield %q : f32
  } -> tensor<f32>
  // CHECK: repro.fold maps
  // CHECK: ^bb0(%[[X:.*]]: f32, %[[ACC:.*]]: f32):
  // CHECK-NEXT: math.fma %[[X]], %[[X]], %[[ACC]]
  %1 = linalg.generic {indexing_maps = [#v, #s], iterator_types = ["reduction"]}
      ins(%x : tensor<8xf32>) outs(%c : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %p = arith.mulf %a, %a : f32
    %q = arith.addf %acc, %p : f32
    linalg.yield %q : f32
  } -> tensor<f32>
  // CHECK: arith.subf
  // CHECK-NEXT: arith.mulf
  // CHECK-NEXT: arith.addf
  %2 = linalg.generic {indexing_maps = [#v, #v, #s], iterator_types = ["reduction"]}
      ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%c : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %d = arith.subf %a, %b : f32
    %p = arith.mulf %d, %d : f32
    %q = arith.addf %acc, %p : f32
    linalg.yield %q : f32
  } -> tensor<f32>
  return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}
