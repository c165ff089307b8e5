// (B3) A check of a sum moves to the end of the step, even from within a region.
// RUN: %repro-opt %s --repro-split-microbatches="keep=part microbatches=2 cut=1" | FileCheck %s --check-prefix=PART
// RUN: %repro-opt %s --repro-split-microbatches="keep=finish microbatches=2 cut=1" | FileCheck %s --check-prefix=FINISH

// PART-NOT: cf.assert
// FINISH: linalg.generic
// FINISH: cf.assert
// FINISH: scf.if
// FINISH: cf.assert
#id = affine_map<(i) -> (i)>
func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32>
    attributes {repro.num_state = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %sum = repro.reduce_microbatches %x : tensor<4xf32>
  %first = tensor.extract %sum[%c0] : tensor<4xf32>
  %empty = tensor.empty() : tensor<4xf32>
  %same = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%w : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %out: f32):
    %positive = arith.cmpf oge, %first, %zero : f32
    cf.assert %positive, "expected a positive sum"
    linalg.yield %e : f32
  } -> tensor<4xf32>
  %chosen = tensor.extract %c[] : tensor<i1>
  scf.if %chosen {
    %positive = arith.cmpf oge, %first, %zero : f32
    cf.assert %positive, "expected a positive sum"
  }
  return %sum : tensor<4xf32>
}
