// (F6), (D2) Unused results, arg-max, unit dimensions of results, empty tensors.
// RUN: %repro-opt --convert-linalg-to-repro --split-input-file %s | FileCheck %s

#ab = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1) -> (d0)>

// The maximum in a softmax has an index result without users.
// CHECK: func.func @F6_unused_index
func.func @F6_unused_index(%x: tensor<4x8xf32>, %m: tensor<4xf32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  // CHECK-NEXT: repro.fold maps
  // CHECK-SAME: outs(%{{[a-z0-9]+}} : tensor<4xf32>)
  // CHECK-NEXT: ^bb0(%[[E:.*]]: f32, %[[ACC:.*]]: f32):
  // CHECK-NEXT: %[[M:.*]] = arith.maximumf %[[E]], %[[ACC]]
  // CHECK-NEXT: repro.yield %[[M]]
  %0:2 = linalg.generic {indexing_maps = [#ab, #a, #a], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%m, %i : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%e: f32, %acc: f32, %at: i64):
    %n = linalg.index 1 : index
    %k = arith.index_cast %n : index to i64
    %r = arith.maximumf %e, %acc : f32
    %g = arith.cmpf ogt, %e, %acc : f32
    %s = arith.select %g, %k, %at : i64
    linalg.yield %r, %s : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %0#0 : tensor<4xf32>
}

// -----

#ab = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1) -> (d0)>

// CHECK: func.func @D2_arg_max(%[[X:[a-z0-9]+]]: tensor<4x8xf32>)
func.func @D2_arg_max(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
  // CHECK: repro.arg_reduce max dimension = 1 ins(%[[X]] : tensor<4x8xf32>)
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i64
  %e0 = tensor.empty() : tensor<4xf32>
  %e1 = tensor.empty() : tensor<4xi64>
  %m = linalg.fill ins(%lowest : f32) outs(%e0 : tensor<4xf32>) -> tensor<4xf32>
  %i = linalg.fill ins(%zero : i64) outs(%e1 : tensor<4xi64>) -> tensor<4xi64>
  %0:2 = linalg.generic {indexing_maps = [#ab, #a, #a], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%m, %i : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%e: f32, %acc: f32, %at: i64):
    %n = linalg.index 1 : index
    %k = arith.index_cast %n : index to i64
    %r = arith.maximumf %e, %acc : f32
    %g = arith.cmpf ogt, %e, %acc : f32
    %s = arith.select %g, %k, %at : i64
    linalg.yield %r, %s : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi64>
}

// -----

#ab = affine_map<(d0, d1) -> (d0, d1)>
#b = affine_map<(d0, d1) -> (d1)>

// CHECK: func.func @D2_arg_min_integer
func.func @D2_arg_min_integer(%x: tensor<4x8xi32>) -> (tensor<8xi32>, tensor<8xi64>) {
  // CHECK: repro.arg_reduce min dimension = 0
  %m = arith.constant dense<2147483647> : tensor<8xi32>
  %i = arith.constant dense<0> : tensor<8xi64>
  %0:2 = linalg.generic {indexing_maps = [#ab, #b, #b], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4x8xi32>) outs(%m, %i : tensor<8xi32>, tensor<8xi64>) {
  ^bb0(%e: i32, %acc: i32, %at: i64):
    %n = linalg.index 0 : index
    %k = arith.index_cast %n : index to i64
    %g = arith.cmpi slt, %e, %acc : i32
    %r = arith.select %g, %e, %acc : i32
    %s = arith.select %g, %k, %at : i64
    linalg.yield %r, %s : i32, i64
  } -> (tensor<8xi32>, tensor<8xi64>)
  return %0#0, %0#1 : tensor<8xi32>, tensor<8xi64>
}

// -----

#ab = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1) -> (d0)>

// An element may be less than this initial value, so the body stays a fold.
// CHECK: func.func @D2_other_start
func.func @D2_other_start(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
  // CHECK: repro.fold maps
  %m = arith.constant dense<0.0> : tensor<4xf32>
  %i = arith.constant dense<0> : tensor<4xi64>
  %0:2 = linalg.generic {indexing_maps = [#ab, #a, #a], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%m, %i : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%e: f32, %acc: f32, %at: i64):
    %n = linalg.index 1 : index
    %k = arith.index_cast %n : index to i64
    %r = arith.maximumf %e, %acc : f32
    %g = arith.cmpf ogt, %e, %acc : f32
    %s = arith.select %g, %k, %at : i64
    linalg.yield %r, %s : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi64>
}

// -----

#ab = affine_map<(d0, d1) -> (d0, d1)>
#a0 = affine_map<(d0, d1) -> (0, d0, 0)>

// CHECK: func.func @unit_dimensions(%[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[O:[a-z0-9]+]]: tensor<1x4x1xf32>)
func.func @unit_dimensions(%x: tensor<4x8xf32>, %o: tensor<1x4x1xf32>) -> tensor<1x4x1xf32> {
  // CHECK-NEXT: %[[C:.*]] = tensor.collapse_shape %[[O]] {{\[\[}}0, 1, 2]] : tensor<1x4x1xf32> into tensor<4xf32>
  // CHECK-NEXT: %[[F:.*]] = repro.fold {{.*}} outs(%[[C]] : tensor<4xf32>)
  // CHECK: %[[E:.*]] = tensor.expand_shape %[[F]] {{\[\[}}0, 1, 2]] output_shape [1, 4, 1]
  // CHECK-NEXT: return %[[E]]
  %0 = linalg.generic {indexing_maps = [#ab, #a0], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<1x4x1xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.addf %e, %acc : f32
    linalg.yield %s : f32
  } -> tensor<1x4x1xf32>
  return %0 : tensor<1x4x1xf32>
}

// -----

// CHECK: func.func @F6_empty
func.func @F6_empty(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<2xi32>) {
  // CHECK: %[[E0:.*]] = tensor.empty() : tensor<4x4xf32>
  // CHECK: %[[Z0:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK: %[[F0:.*]] = linalg.generic {{.*}} ins(%[[Z0]] : f32) outs(%[[E0]] : tensor<4x4xf32>)
  // CHECK: repro.fold {{.*}} outs(%[[F0]] : tensor<4x4xf32>)
  %0 = tensor.empty() : tensor<4x4xf32>
  %1 = linalg.matmul ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%0 : tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: %[[Z1:.*]] = arith.constant 0 : i32
  // CHECK: %[[F1:.*]] = linalg.generic {{.*}} ins(%[[Z1]] : i32)
  // CHECK: return %{{.*}}, %[[F1]]
  %2 = tensor.empty() : tensor<2xi32>
  return %1, %2 : tensor<4x4xf32>, tensor<2xi32>
}

// -----

// CHECK: func.func @named
func.func @named(%x: tensor<4x8xf32>, %c: f32) -> (tensor<8x4xf32>, tensor<2x4x8xf32>, tensor<4x8xf32>) {
  // CHECK-NOT: linalg.{{fill|transpose|broadcast|map}}
  // CHECK-COUNT-4: linalg.generic
  %0 = tensor.empty() : tensor<8x4xf32>
  %1 = linalg.transpose ins(%x : tensor<4x8xf32>) outs(%0 : tensor<8x4xf32>) permutation = [1, 0]
  %2 = tensor.empty() : tensor<2x4x8xf32>
  %3 = linalg.broadcast ins(%x : tensor<4x8xf32>) outs(%2 : tensor<2x4x8xf32>) dimensions = [0]
  %4 = tensor.empty() : tensor<4x8xf32>
  %5 = linalg.fill ins(%c : f32) outs(%4 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = linalg.map { arith.addf } ins(%x, %5 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>)
  return %1, %3, %6 : tensor<8x4xf32>, tensor<2x4x8xf32>, tensor<4x8xf32>
}
