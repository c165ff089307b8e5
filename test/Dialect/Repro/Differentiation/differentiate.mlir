// (J1), (J2) Gradients become arguments and results; reductions of gradients are generics.
// RUN: %repro-opt --repro-differentiate="results=0 arguments=0,1" --split-input-file --mlir-print-local-scope %s | FileCheck %s

#mk = affine_map<(d0, d1, d2) -> (d0, d2)>
#kn = affine_map<(d0, d1, d2) -> (d2, d1)>
#mn = affine_map<(d0, d1, d2) -> (d0, d1)>

// The adjoint of a contraction is a contraction.
// CHECK: func.func @main
// CHECK-SAME: %arg2: tensor<4x16xf32> {repro.name = "gradient.z"}
// CHECK-SAME: {repro.name = "gradient.x"}
// CHECK-SAME: {repro.name = "gradient.y"}
// CHECK: %[[Z:.*]] = repro.fold
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d2)>], iterator_types = ["parallel", "reduction", "parallel"]} ins(%arg1, %arg2 :
// CHECK: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d2, d1)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%arg0, %arg2 :
func.func @main(%x: tensor<4x8xf32> {repro.name = "x"}, %y: tensor<8x16xf32> {repro.name = "y"})
    -> (tensor<4x16xf32> {repro.name = "z"}) attributes {repro.num_state = 0 : i64} {
  %zero = arith.constant dense<0.0> : tensor<4x16xf32>
  %0 = repro.fold maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %y : tensor<4x8xf32>, tensor<8x16xf32>) outs(%zero : tensor<4x16xf32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %p = math.fma %e, %f, %acc : f32
    repro.yield %p : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// -----

#v = affine_map<(d0) -> (d0)>

// If the result does not depend on an argument, the argument's gradient is zero.
// CHECK: func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<2xf32>, %arg2: tensor<4xf32>)
// CHECK: repro.sin
// CHECK: ins(%arg0, %arg2 : tensor<4xf32>, tensor<4xf32>)
// CHECK: repro.cos
// CHECK: linalg.generic
// CHECK-SAME: outs({{.*}} : tensor<2xf32>)
func.func @main(%x: tensor<4xf32>, %y: tensor<2xf32>) -> tensor<4xf32> attributes {repro.num_state = 0 : i64} {
  %empty = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %out: f32):
    %s = repro.sin %e : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

#rows = affine_map<(d0, d1) -> (d0)>
#whole = affine_map<(d0, d1) -> (d0, d1)>

// (J4) The gradient of a row is the sum over all indices that select the row.
// CHECK: func.func @main
// CHECK: repro.scatter add
// CHECK-SAME: tensor<6x3xf32>, tensor<6x1xi64>
func.func @main(%table: tensor<5x3xf32>, %y: tensor<2xf32>, %i: tensor<6xi64>) -> tensor<6x3xf32>
    attributes {repro.num_state = 0 : i64} {
  %empty = tensor.empty() : tensor<6x3xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #whole], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<6xi64>) outs(%empty : tensor<6x3xf32>) {
  ^bb0(%index: i64, %out: f32):
    %row = arith.index_cast %index : i64 to index
    %column = linalg.index 1 : index
    %e = tensor.extract %table[%row, %column] : tensor<5x3xf32>
    linalg.yield %e : f32
  } -> tensor<6x3xf32>
  return %0 : tensor<6x3xf32>
}
