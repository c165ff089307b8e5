// RUN: %repro-opt %s --repro-split-microbatches="keep=part microbatches=6 cut=4 step=2" | FileCheck %s --check-prefix=PART
// RUN: %repro-opt %s --repro-split-microbatches="keep=add microbatches=6 cut=4 step=2" | FileCheck %s --check-prefix=ADD
// RUN: %repro-opt %s --repro-split-microbatches="keep=finish microbatches=6 cut=4 step=2" | FileCheck %s --check-prefix=FINISH

#id = affine_map<(i) -> (i)>
#scalar = affine_map<(i) -> ()>

// (B1) A step computes w - lr * mean(x * w), a count that does not depend on a
// microbatch, the step of random numbers, and the output x * w.

// PART: func.func @main(%[[W:.*]]: tensor<4xf32> {repro.name = "w"}, %[[C:.*]]: tensor<i64> {repro.name = "count"},
// PART-SAME: %{{.*}}: tensor<i64> {repro.name = "step"}, %{{.*}}: tensor<f32> {repro.name = "lr"},
// PART-SAME: %[[X:.*]]: tensor<4xf32> {repro.name = "x"})
// PART-SAME: -> (tensor<4xf32>, tensor<4xf32> {repro.name = "product"})
// PART-SAME: attributes {repro.num_state = 0 : i64}
// PART: %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[W]] :
// PART: cf.assert
// PART-NOT: arith.subf
// PART-NOT: arith.addi
// PART: return %[[P]], %[[P]]

// ADD: func.func @main(%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>) -> tensor<4xf32>
// ADD-SAME: attributes {repro.num_state = 1 : i64}
// ADD: linalg.generic {{.*}} ins(%[[A]], %[[B]] :
// ADD: arith.addf

// FINISH: func.func @main(%[[W:.*]]: tensor<4xf32> {repro.name = "w"}, %[[C:.*]]: tensor<i64> {repro.name = "count"},
// FINISH-SAME: %[[STEP:.*]]: tensor<i64> {repro.name = "step"}, %[[S0:.*]]: tensor<4xf32>,
// FINISH-SAME: %[[LR:.*]]: tensor<f32> {repro.name = "lr"})
// FINISH-SAME: -> (tensor<4xf32> {repro.name = "w"}, tensor<i64> {repro.name = "count"},
// FINISH-SAME: tensor<i64> {repro.name = "step"}, tensor<4xf32> {repro.name = "gradient"})
// FINISH-SAME: attributes {repro.num_state = 3 : i64}
// FINISH-NOT: cf.assert
// FINISH: %[[N:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// FINISH: %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[S0]] : tensor<4xf32>)
// FINISH: %[[COUNT:.*]] = arith.constant 6.000000e+00 : f32
// FINISH: arith.divf %{{.*}}, %[[COUNT]] : f32
// FINISH: %[[NEW:.*]] = linalg.generic {{.*}} ins(%[[W]], %[[MEAN]], %[[LR]] :
// FINISH: %[[NEXT:.*]] = linalg.generic {{.*}} ins(%[[STEP]] : tensor<i64>)
// FINISH: %[[SIX:.*]] = arith.constant 6 : i64
// FINISH: arith.addi %{{.*}}, %[[SIX]] : i64
// FINISH-NOT: cf.assert
// FINISH: return %[[NEW]], %[[N]], %[[NEXT]], %[[MEAN]]
func.func @main(%w: tensor<4xf32> {repro.name = "w"}, %count: tensor<i64> {repro.name = "count"},
                %step: tensor<i64> {repro.name = "step"}, %lr: tensor<f32> {repro.name = "lr"},
                %x: tensor<4xf32> {repro.name = "x"})
    -> (tensor<4xf32> {repro.name = "w"}, tensor<i64> {repro.name = "count"}, tensor<i64> {repro.name = "step"},
        tensor<4xf32> {repro.name = "gradient"}, tensor<4xf32> {repro.name = "product"})
    attributes {repro.num_state = 3 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : i64
  %empty = tensor.empty() : tensor<4xf32>
  %none = tensor.empty() : tensor<i64>
  %product = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %w : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  %counted = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%count : tensor<i64>) outs(%none : tensor<i64>) {
  ^bb0(%a: i64, %out: i64):
    %p = arith.addi %a, %one : i64
    linalg.yield %p : i64
  } -> tensor<i64>
  %first = tensor.extract %product[%c0] : tensor<4xf32>
  %positive = arith.cmpf oge, %first, %zero : f32
  cf.assert %positive, "expected a positive number"
  %gradient = repro.reduce_microbatches %product : tensor<4xf32>
  %all = repro.reduce_microbatches %counted : tensor<i64>
  %new = linalg.generic {indexing_maps = [#id, #id, #scalar, #id], iterator_types = ["parallel"]}
      ins(%w, %gradient, %lr : tensor<4xf32>, tensor<4xf32>, tensor<f32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%a: f32, %g: f32, %l: f32, %out: f32):
    %d = arith.mulf %l, %g : f32
    %s = arith.subf %a, %d : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %next = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%step : tensor<i64>) outs(%none : tensor<i64>) {
  ^bb0(%a: i64, %out: i64):
    %p = arith.addi %a, %one : i64
    linalg.yield %p : i64
  } -> tensor<i64>
  return %new, %all, %next, %gradient, %product
      : tensor<4xf32>, tensor<i64>, tensor<i64>, tensor<4xf32>, tensor<4xf32>
}
