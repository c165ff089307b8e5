// RUN: %repro-opt %s --repro-partition="ranks=2 rank=1 chooses=true least=1" | FileCheck %s
// RUN: %repro-opt %s --repro-partition="ranks=2 rank=1 chooses=true least=1" --repro-outline-segments | FileCheck %s --check-prefix=PLAN

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>

// (T1), (T2) A product with a weight whose rows are cut, an addition of positions,
// and a sum along the cut dimension, for which the product is gathered.

// CHECK: func.func @main(%[[W:.*]]: tensor<3x4xf32> {repro.cut = array<i64: 0, 1, 0, 2, 5>, repro.name = "w"},
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>) -> (tensor<3x4xf32> {repro.name = "w"}, tensor<2xf32>)
// CHECK: %[[Y:.*]] = repro.fold {{.*}} ins(%[[X]], %[[W]] : tensor<2x4xf32>, tensor<3x4xf32>) outs(%{{.*}} : tensor<2x3xf32>)
// CHECK: %[[Z:.*]] = linalg.generic {{.*}} ins(%[[Y]] : tensor<2x3xf32>)
// CHECK: %[[I:.*]] = linalg.index 1
// CHECK: %[[TWO:.*]] = arith.constant 2 : index
// CHECK: arith.addi %[[I]], %[[TWO]] : index
// CHECK: %[[WHOLE:.*]] = repro.all_gather %[[Z]] dimension = 1 blocks = 1 sizes = [2, 3]
// CHECK-SAME: tensor<2x3xf32> -> tensor<2x5xf32>
// CHECK: %[[SUM:.*]] = repro.fold {{.*}} ins(%[[WHOLE]] : tensor<2x5xf32>)
// CHECK: return %[[W]], %[[SUM]]

// PLAN: func.func @main(%[[W:.*]]: tensor<3x4xf32> {{.*}}, %[[X:.*]]: tensor<2x4xf32>)
// PLAN: %[[A:.*]]:2 = call @segment_0(%[[W]], %[[X]])
// PLAN: %[[B:.*]] = repro.all_gather %[[A]]#1
// PLAN: %[[C:.*]] = call @segment_1(%[[B]])
// PLAN: return %[[W]], %[[C]]
// PLAN: func.func private @segment_0({{.*}}) -> (tensor<3x4xf32>, tensor<2x3xf32>) attributes {repro.num_state = 1 : i64}
// PLAN: func.func private @segment_1({{.*}}) -> tensor<2xf32> attributes {repro.num_state = 0 : i64}

func.func @main(%w: tensor<5x4xf32> {repro.name = "w"}, %x: tensor<2x4xf32>)
    -> (tensor<5x4xf32> {repro.name = "w"}, tensor<2xf32>) attributes {repro.num_state = 1 : i64} {
  %zero = arith.constant 0.000000e+00 : f32
  %empty = tensor.empty() : tensor<2x5xf32>
  %init = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}
      outs(%empty : tensor<2x5xf32>) {
  ^bb0(%out: f32):
    linalg.yield %zero : f32
  } -> tensor<2x5xf32>
  %y = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#mk, #nk, #mn]
      iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<2x4xf32>, tensor<5x4xf32>) outs(%init : tensor<2x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = math.fma %a, %b, %acc : f32
    repro.yield %p : f32
  } -> tensor<2x5xf32>
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<2x5xf32>) outs(%empty : tensor<2x5xf32>) {
  ^bb0(%e: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %k = arith.sitofp %j : i64 to f32
    %s = arith.addf %e, %k : f32
    linalg.yield %s : f32
  } -> tensor<2x5xf32>
  %rows = tensor.empty() : tensor<2xf32>
  %start = linalg.generic {indexing_maps = [affine_map<(m) -> (m)>], iterator_types = ["parallel"]}
      outs(%rows : tensor<2xf32>) {
  ^bb0(%out: f32):
    linalg.yield %zero : f32
  } -> tensor<2xf32>
  %sum = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [#id, affine_map<(m, n) -> (m)>] iterators [parallel, reduction]
      ins(%z : tensor<2x5xf32>) outs(%start : tensor<2xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.addf %acc, %e : f32
    repro.yield %s : f32
  } -> tensor<2xf32>
  return %w, %sum : tensor<5x4xf32>, tensor<2xf32>
}
