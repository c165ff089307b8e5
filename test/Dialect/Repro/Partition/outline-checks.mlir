// RUN: %repro-opt %s --repro-partition="ranks=2 arguments=0 dimensions=0" --repro-outline-segments | FileCheck %s

// (E1) A check stays even if no result depends on it.

// CHECK: call @segment_0(%{{.*}}, %{{.*}}) : (tensor<7xf32>, tensor<2xi64>) -> ()
// CHECK: func.func private @segment_0
// CHECK: tensor.extract

func.func @main(%i: tensor<4xi64>, %t: tensor<7xf32>) -> tensor<7xf32> attributes {repro.num_state = 0 : i64} {
  %empty = tensor.empty() : tensor<4xf32>
  %read = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]}
      ins(%i : tensor<4xi64>) outs(%empty : tensor<4xf32>) {
  ^bb0(%n: i64, %out: f32):
    %at = arith.index_cast %n : i64 to index
    %e = tensor.extract %t[%at] : tensor<7xf32>
    linalg.yield %e : f32
  } -> tensor<4xf32>
  return %t : tensor<7xf32>
}
