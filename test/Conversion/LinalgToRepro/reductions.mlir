// (F6), (F7) Every reduction becomes a fold without an order.
// RUN: %repro-opt --convert-linalg-to-repro %s | FileCheck %s

#ab = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1) -> (d0)>

// This named operation has no body of its own.
// CHECK: func.func @F1_pooling
func.func @F1_pooling(%x: tensor<2x3x8x8xf32>, %o: tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32> {
  %w = tensor.empty() : tensor<2x2xf32>
  // CHECK-NOT: linalg.generic
  // CHECK: repro.fold maps
  %0 = linalg.pooling_nchw_sum {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%x, %w : tensor<2x3x8x8xf32>, tensor<2x2xf32>) outs(%o : tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}

// (F6) The body is not op(acc, f(inputs)); linalg.index becomes repro.index.
// CHECK: func.func @F6_sequential
func.func @F6_sequential(%x: tensor<4x8xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: repro.fold maps
  // CHECK: repro.index 1
  %0 = linalg.generic {indexing_maps = [#ab, #a], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %s = arith.addf %e, %acc : f32
    %t = arith.mulf %s, %k : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// (F7) Elements convert exactly; the fold computes the sum and rounds it.
// CHECK: func.func @F7_sum_bf16
func.func @F7_sum_bf16(%x: tensor<4x8xbf16>, %o: tensor<4xbf16>) -> tensor<4xbf16> {
  // CHECK: ^bb0(%[[E:.*]]: bf16, %[[ACC:.*]]: f32):
  // CHECK-NEXT: %[[W:.*]] = arith.extf %[[E]] : bf16 to f32
  // CHECK-NEXT: %[[S:.*]] = arith.addf %[[W]], %[[ACC]] : f32
  // CHECK-NEXT: repro.yield %[[S]] : f32
  %0 = linalg.generic {indexing_maps = [#ab, #a], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xbf16>) outs(%o : tensor<4xbf16>) {
  ^bb0(%e: bf16, %acc: bf16):
    %s = arith.addf %e, %acc : bf16
    linalg.yield %s : bf16
  } -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}
