// (V3) Canonicalization keeps every bit and every order.
// RUN: %repro-opt %s -canonicalize | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>

// CHECK-LABEL: func @drop_unused_input
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %{{.*}}: tensor<8xf32>, %[[O:.*]]: tensor<4xf32>)
// CHECK: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
// CHECK-SAME: ins(%[[X]] : tensor<4x8xf32>) outs(%[[O]] : tensor<4xf32>) attributes {note = "kept"} {
// CHECK-NEXT: ^bb0(%[[E:.*]]: f32, %[[ACC:.*]]: f32):
// CHECK-NEXT: arith.addf %[[ACC]], %[[E]] : f32
func.func @drop_unused_input(%x: tensor<4x8xf32>, %y: tensor<8xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %0 = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [#column, #id, #row] iterators [parallel, reduction]
      ins(%y, %x : tensor<8xf32>, tensor<4x8xf32>) outs(%o : tensor<4xf32>) attributes {note = "kept"} {
  ^bb0(%unused: f32, %e: f32, %acc: f32):
    %1 = arith.addf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Without the unused input, the extent of the reduction would be unknown.
// CHECK-LABEL: func @keep_input_that_gives_an_extent
// CHECK: ins(%{{.*}} : tensor<8xf32>)
func.func @keep_input_that_gives_an_extent(%x: tensor<8xf32>, %o: tensor<f32>) -> tensor<f32> {
  %one = arith.constant 1.0 : f32
  %0 = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%unused: f32, %acc: f32):
    %1 = arith.addf %acc, %one : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func @drop_same_input
// CHECK: ins(%{{.*}} : tensor<8xf32>) outs
// CHECK-NEXT: ^bb0(%[[E:.*]]: f32, %[[ACC:.*]]: f32):
// CHECK-NEXT: math.fma %[[E]], %[[E]], %[[ACC]] : f32
func.func @drop_same_input(%x: tensor<8xf32>, %o: tensor<f32>) -> tensor<f32> {
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x, %x : tensor<8xf32>, tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func @keep_same_input_of_other_map
// CHECK: ins(%[[X:.*]], %[[X]] : tensor<8x8xf32>, tensor<8x8xf32>)
func.func @keep_same_input_of_other_map(%x: tensor<8x8xf32>, %o: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>]
      iterators [parallel, parallel, reduction]
      ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%o : tensor<8x8xf32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// (F5) The remaining fold is a maximum, which requires #repro.any_order.
// CHECK-LABEL: func @F6_drop_unused_result
// CHECK: repro.fold #repro.any_order
// CHECK-SAME: outs(%{{.*}} : tensor<4xf32>) {
// CHECK-NEXT: ^bb0(%[[E:.*]]: f32, %[[ACC:.*]]: f32):
// CHECK-NEXT: %[[M:.*]] = arith.maximumf %[[ACC]], %[[E]] : f32
// CHECK-NEXT: repro.yield %[[M]] : f32
func.func @F6_drop_unused_result(%x: tensor<4x8xf32>, %v: tensor<4xf32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  %0:2 = repro.fold #repro.sequential maps [#id, #row, #row] iterators [parallel, reduction]
      ins(%x : tensor<4x8xf32>) outs(%v, %i : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%e: f32, %acc: f32, %at: i64):
    %1 = repro.index 1 : index
    %2 = arith.index_cast %1 : index to i64
    %3 = arith.cmpf ogt, %e, %acc : f32
    %4 = arith.maximumf %acc, %e : f32
    %5 = arith.select %3, %2, %at : i64
    repro.yield %4, %5 : f32, i64
  } -> tensor<4xf32>, tensor<4xi64>
  return %0#0 : tensor<4xf32>
}

// The computation of the index reads the value's accumulator.
// CHECK-LABEL: func @F6_keep_needed_accumulator
// CHECK: repro.fold #repro.sequential
// CHECK-SAME: outs(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xi64>)
func.func @F6_keep_needed_accumulator(%x: tensor<4x8xf32>, %v: tensor<4xf32>, %i: tensor<4xi64>) -> tensor<4xi64> {
  %0:2 = repro.fold #repro.sequential maps [#id, #row, #row] iterators [parallel, reduction]
      ins(%x : tensor<4x8xf32>) outs(%v, %i : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%e: f32, %acc: f32, %at: i64):
    %1 = repro.index 1 : index
    %2 = arith.index_cast %1 : index to i64
    %3 = arith.cmpf ogt, %e, %acc : f32
    %4 = arith.select %3, %e, %acc : f32
    %5 = arith.select %3, %2, %at : i64
    repro.yield %4, %5 : f32, i64
  } -> tensor<4xf32>, tensor<4xi64>
  return %0#1 : tensor<4xi64>
}

// (F1) defines no sum that starts from init: another order would change bits.
// CHECK-LABEL: func @F6_keep_order_of_sum
// CHECK: repro.fold #repro.sequential
// CHECK-SAME: outs(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>)
func.func @F6_keep_order_of_sum(%x: tensor<4x8xf32>, %v: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = repro.fold #repro.sequential maps [#id, #row, #row] iterators [parallel, reduction]
      ins(%x : tensor<4x8xf32>) outs(%v, %w : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%e: f32, %sum: f32, %product: f32):
    %1 = arith.addf %sum, %e : f32
    %2 = arith.mulf %product, %e : f32
    repro.yield %1, %2 : f32, f32
  } -> tensor<4xf32>, tensor<4xf32>
  return %0#0 : tensor<4xf32>
}

// One of three results depends on another one: only the third is removed.
// CHECK-LABEL: func @F6_drop_third
// CHECK: repro.fold #repro.sequential
// CHECK-SAME: outs(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xi64>)
// CHECK: repro.yield %{{.*}}, %{{.*}} : f32, i64
// CHECK: return %{{.*}}#1 : tensor<4xi64>
func.func @F6_drop_third(%x: tensor<4x8xf32>, %v: tensor<4xf32>, %w: tensor<4xf32>, %i: tensor<4xi64>) -> tensor<4xi64> {
  %0:3 = repro.fold #repro.sequential maps [#id, #row, #row, #row] iterators [parallel, reduction]
      ins(%x : tensor<4x8xf32>) outs(%v, %w, %i : tensor<4xf32>, tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%e: f32, %acc: f32, %sum: f32, %at: i64):
    %1 = repro.index 1 : index
    %2 = arith.index_cast %1 : index to i64
    %3 = arith.cmpf ogt, %e, %acc : f32
    %4 = arith.select %3, %e, %acc : f32
    %5 = arith.select %3, %2, %at : i64
    %6 = arith.addf %sum, %e : f32
    repro.yield %4, %6, %5 : f32, f32, i64
  } -> tensor<4xf32>, tensor<4xf32>, tensor<4xi64>
  return %0#2 : tensor<4xi64>
}

// (E1) A failing check is an effect of its own.
// CHECK-LABEL: func @E1_keep_checked_result
// CHECK: outs(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>)
func.func @E1_keep_checked_result(%x: tensor<4x8xf32>, %v: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = repro.fold #repro.sequential maps [#id, #row, #row] iterators [parallel, reduction]
      ins(%x : tensor<4x8xf32>) outs(%v, %w : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%e: f32, %max: f32, %sum: f32):
    %1 = arith.maximumf %max, %e : f32
    %2 = arith.addf %sum, %e : f32
    %3 = arith.cmpf ord, %sum, %sum : f32
    cf.assert %3, "NaN"
    repro.yield %1, %2 : f32, f32
  } -> tensor<4xf32>, tensor<4xf32>
  return %0#0 : tensor<4xf32>
}

// CHECK-LABEL: func @dead_operations
// CHECK-NEXT: return
func.func @dead_operations(%x: tensor<4x8xf32>, %v: tensor<4xf32>, %i: tensor<4xi64>, %seed: i64, %s: f32) {
  %0 = repro.fold #repro.any_order maps [#id, #row] iterators [parallel, reduction]
      ins(%x : tensor<4x8xf32>) outs(%v : tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<4xf32>
  %2:2 = repro.arg_reduce max dimension = 1 ins(%x : tensor<4x8xf32>) outs(%v, %i : tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>, tensor<4xi64>
  %3 = repro.scan add dimension = 1 ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = repro.sort ascending dimension = 1 ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = repro.random uniform site = 0 ins(%seed, %seed : i64, i64) outs(%v : tensor<4xf32>) -> tensor<4xf32>
  %6 = repro.exp %s : f32
  return
}

// CHECK-LABEL: func @live_on_memrefs
// CHECK: repro.scan
func.func @live_on_memrefs(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  repro.scan add dimension = 1 ins(%x : memref<4x8xf32>) outs(%y : memref<4x8xf32>)
  return
}

// The host's libraries do not evaluate elementary functions.
// CHECK-LABEL: func @S5_no_constant_folding
// CHECK: repro.exp %{{.*}} : f32
// CHECK: repro.pow %{{.*}}, %{{.*}} : f32
func.func @S5_no_constant_folding() -> (f32, f32) {
  %x = arith.constant 2.0 : f32
  %0 = repro.exp %x : f32
  %1 = repro.pow %x, %x : f32
  return %0, %1 : f32, f32
}

// CHECK-LABEL: func @cast_of_input
// CHECK-NOT: tensor.cast
// CHECK: ins(%{{.*}} : tensor<4x8xf32>)
func.func @cast_of_input(%x: tensor<4x8xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  %c = tensor.cast %x : tensor<4x8xf32> to tensor<4x?xf32>
  %0 = repro.fold #repro.any_order maps [#id, #row] iterators [parallel, reduction]
      ins(%c : tensor<4x?xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
