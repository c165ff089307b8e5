// RUN: %repro-opt %s --repro-partition="ranks=2 rank=1 arguments=0 dimensions=0" | FileCheck %s

// (T1) The input concatenates three tensors, each with two heads of two
// elements: rank 1 has the second head of each tensor.

// CHECK: func.func @main(%[[X:.*]]: tensor<6xf32> {repro.cut = array<i64: 0, 3, 0, 2, 4>}) -> tensor<2x2xf32>
// CHECK: %[[S:.*]] = tensor.extract_slice %[[X]][2] [2] [1] : tensor<6xf32> to tensor<2xf32>
// CHECK: %[[H:.*]] = tensor.expand_shape %[[S]] {{.*}} output_shape [1, 2] : tensor<2xf32> into tensor<1x2xf32>
// CHECK: %[[B:.*]] = repro.barrier %[[H]]
// CHECK: %[[R:.*]] = repro.all_gather %[[B]] dimension = 0 blocks = 1 sizes = [1, 1]
// CHECK: return %[[R]]

func.func @main(%x: tensor<12xf32>) -> tensor<2x2xf32> attributes {repro.num_state = 0 : i64} {
  %s = tensor.extract_slice %x[4] [4] [1] : tensor<12xf32> to tensor<4xf32>
  %h = tensor.expand_shape %s [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %b = repro.barrier %h : tensor<2x2xf32>
  return %b : tensor<2x2xf32>
}
