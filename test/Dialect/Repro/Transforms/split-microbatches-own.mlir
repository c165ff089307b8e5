// RUN: %repro-opt %s --repro-split-microbatches="keep=part microbatches=3 cut=2 own=1" | FileCheck %s --check-prefix=PART
// RUN: %repro-opt %s --repro-split-microbatches="keep=finish microbatches=3 cut=2 own=1" | FileCheck %s --check-prefix=FINISH

// (B5) Each microbatch keeps the sum of its inputs in a state of its own; the step
// computes the mean of the former sums.

// PART: func.func @main(%{{.*}}: tensor<4xf32> {repro.name = "w"}, %[[E:.*]]: tensor<4xf32> {repro.name = "e"},
// PART-SAME: %[[X:.*]]: tensor<4xf32> {repro.name = "x"}) -> (tensor<4xf32>, tensor<4xf32> {repro.name = "e"})
// PART-SAME: attributes {repro.num_state = 0 : i64}
// PART: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[E]] :
// PART: return %[[E]], %[[SUM]]

// FINISH: func.func @main(%{{.*}}: tensor<4xf32> {repro.name = "w"}, %{{.*}}: tensor<3x4xf32> {repro.name = "e"},
// FINISH-SAME: %[[S:.*]]: tensor<4xf32>, %[[NEW:.*]]: tensor<3x4xf32>)
// FINISH-SAME: -> (tensor<4xf32> {repro.name = "w"}, tensor<3x4xf32> {repro.name = "e"})
// FINISH-SAME: attributes {repro.num_state = 2 : i64}
// FINISH: %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<4xf32>)
// FINISH: return %[[MEAN]], %[[NEW]]
func.func @main(%w: tensor<4xf32> {repro.name = "w"}, %e: tensor<4xf32> {repro.name = "e"},
                %x: tensor<4xf32> {repro.name = "x"})
    -> (tensor<4xf32> {repro.name = "w"}, tensor<4xf32> {repro.name = "e"})
    attributes {repro.num_state = 2 : i64} {
  %empty = tensor.empty() : tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                         iterator_types = ["parallel"]}
      ins(%x, %e : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %mean = repro.reduce_microbatches %e gradient = "w" : tensor<4xf32>
  return %mean, %sum : tensor<4xf32>, tensor<4xf32>
}
