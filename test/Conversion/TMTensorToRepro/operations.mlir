// RUN: %repro-opt --allow-unregistered-dialect --convert-tm-tensor-to-repro %s | FileCheck %s

// CHECK: func.func @D1_scatter_add(%[[U:[a-z0-9]+]]: tensor<6x1x8xf32>, %[[I:[a-z0-9]+]]: tensor<6x1xi64>, %[[O:[a-z0-9]+]]: tensor<10x8xf32>)
func.func @D1_scatter_add(%u: tensor<6x1x8xf32>, %i: tensor<6x1xi64>, %o: tensor<10x8xf32>) -> tensor<10x8xf32> {
  // CHECK-NEXT: %[[C:.*]] = tensor.collapse_shape %[[U]] {{\[\[}}0, 1], [2]] : tensor<6x1x8xf32> into tensor<6x8xf32>
  // CHECK-NEXT: repro.scatter add ins(%[[C]], %[[I]] : tensor<6x8xf32>, tensor<6x1xi64>) outs(%[[O]] : tensor<10x8xf32>)
  %0 = "tm_tensor.scatter"(%u, %i, %o) <{dimension_map = array<i64: 0>, operandSegmentSizes = array<i32: 2, 1>, unique_indices = false}> ({
  ^bb0(%a: f32, %b: f32):
    %1 = arith.addf %b, %a : f32
    "tm_tensor.yield"(%1) : (f32) -> ()
  }) : (tensor<6x1x8xf32>, tensor<6x1xi64>, tensor<10x8xf32>) -> tensor<10x8xf32>
  return %0 : tensor<10x8xf32>
}

// CHECK: func.func @D1_scatter_replace
func.func @D1_scatter_replace(%u: tensor<6xf32>, %i: tensor<6x2xi64>, %o: tensor<10x8xf32>) -> tensor<10x8xf32> {
  // CHECK-NEXT: repro.scatter replace ins(%{{.*}}, %{{.*}} : tensor<6xf32>, tensor<6x2xi64>) outs(%{{.*}} : tensor<10x8xf32>)
  %0 = "tm_tensor.scatter"(%u, %i, %o) <{dimension_map = array<i64: 0, 1>, operandSegmentSizes = array<i32: 2, 1>, unique_indices = false}> ({
  ^bb0(%a: f32, %b: f32):
    "tm_tensor.yield"(%a) : (f32) -> ()
  }) : (tensor<6xf32>, tensor<6x2xi64>, tensor<10x8xf32>) -> tensor<10x8xf32>
  return %0 : tensor<10x8xf32>
}

// A scatter that counts: every update is 1.
// CHECK: func.func @D1_scatter_constant(%{{.*}}: tensor<6xf32>, %[[I:[a-z0-9]+]]: tensor<6x1xi64>, %[[O:[a-z0-9]+]]: tensor<10xf32>)
func.func @D1_scatter_constant(%u: tensor<6xf32>, %i: tensor<6x1xi64>, %o: tensor<10xf32>) -> tensor<10xf32> {
  // CHECK-NEXT: %[[ONE:.*]] = arith.constant 1.0
  %one = arith.constant 1.0 : f32
  // CHECK: %[[F:.*]] = linalg.generic
  // CHECK: linalg.yield %[[ONE]]
  // CHECK: repro.scatter add ins(%[[F]], %[[I]] : tensor<6xf32>, tensor<6x1xi64>) outs(%[[O]] : tensor<10xf32>)
  %0 = "tm_tensor.scatter"(%u, %i, %o) <{dimension_map = array<i64: 0>, operandSegmentSizes = array<i32: 2, 1>, unique_indices = false}> ({
  ^bb0(%a: f32, %b: f32):
    %1 = arith.addf %b, %one : f32
    "tm_tensor.yield"(%1) : (f32) -> ()
  }) : (tensor<6xf32>, tensor<6x1xi64>, tensor<10xf32>) -> tensor<10xf32>
  return %0 : tensor<10xf32>
}

// CHECK: func.func @D3_scan(%[[X:[a-z0-9]+]]: tensor<4x8xf32>
func.func @D3_scan(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %c: tensor<4xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[E:.*]] = tensor.empty() : tensor<4x8xf32>
  // CHECK-NEXT: repro.scan mul dimension = 1 ins(%[[X]] : tensor<4x8xf32>) outs(%[[E]] : tensor<4x8xf32>)
  %0:2 = "tm_tensor.scan"(%x, %y, %c) <{dimension = 1 : i64, inclusive = true, operandSegmentSizes = array<i32: 1, 2>}> ({
  ^bb0(%a: f32, %b: f32):
    %1 = arith.mulf %a, %b : f32
    "tm_tensor.yield"(%1) : (f32) -> ()
  }) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return %0#0 : tensor<4x8xf32>
}

// CHECK: func.func @D2_sort(%[[K:[a-z0-9]+]]: tensor<4x8xf32>, %[[V:[a-z0-9]+]]: tensor<4x8xi64>)
func.func @D2_sort(%k: tensor<4x8xf32>, %v: tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xi64>) {
  // CHECK: repro.sort descending dimension = 1 ins(%[[K]], %[[V]] : tensor<4x8xf32>, tensor<4x8xi64>)
  %0:2 = "tm_tensor.sort"(%k, %v) <{dimension = 1 : i64, operandSegmentSizes = array<i32: 0, 2>}> ({
  ^bb0(%a: f32, %b: f32, %c: i64, %d: i64):
    %1 = arith.cmpf oge, %a, %b : f32
    "tm_tensor.yield"(%1) : (i1) -> ()
  }) : (tensor<4x8xf32>, tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
  return %0#0, %0#1 : tensor<4x8xf32>, tensor<4x8xi64>
}

// CHECK: func.func @D2_topk(%[[X:[a-z0-9]+]]: tensor<4x8xf32>,
func.func @D2_topk(%x: tensor<4x8xf32>, %v: tensor<4x3xf32>, %i: tensor<4x3xi32>) -> (tensor<4x3xf32>, tensor<4x3xi32>) {
  // CHECK: %[[P:.*]] = linalg.generic
  // CHECK: linalg.index 1
  // CHECK: %[[S:.*]]:2 = repro.sort ascending dimension = 1 ins(%[[X]], %[[P]] : tensor<4x8xf32>, tensor<4x8xi32>)
  // CHECK: tensor.extract_slice %[[S]]#0[0, 0] [4, 3] [1, 1]
  // CHECK: tensor.extract_slice %[[S]]#1[0, 0] [4, 3] [1, 1]
  %0:2 = "tm_tensor.topk"(%x, %v, %i) <{dimension = 1 : i64, operandSegmentSizes = array<i32: 1, 2>}> ({
  ^bb0(%a: f32, %b: f32):
    %1 = arith.cmpf olt, %a, %b : f32
    "tm_tensor.yield"(%1) : (i1) -> ()
  }) : (tensor<4x8xf32>, tensor<4x3xf32>, tensor<4x3xi32>) -> (tensor<4x3xf32>, tensor<4x3xi32>)
  return %0#0, %0#1 : tensor<4x3xf32>, tensor<4x3xi32>
}
