// (P2), (P3), (F5), (F6): the order follows from the iterators and maps alone.
// RUN: %repro-opt --convert-linalg-to-repro %s | FileCheck %s

#ab = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1) -> (d0)>
#b = affine_map<(d0, d1) -> (d1)>
#abc = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#c = affine_map<(d0, d1, d2) -> (d1)>

// CHECK: func.func @P2_rows
func.func @P2_rows(%x: tensor<4x8xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
  %0 = linalg.generic {indexing_maps = [#ab, #a], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.addf %e, %acc : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK: func.func @P2_columns
func.func @P2_columns(%x: tensor<4x8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
  %0 = linalg.generic {indexing_maps = [#ab, #b], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<8xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.mulf %e, %acc : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// Batch normalisation: all but the middle dimension; only the last one is a run.
// CHECK: func.func @P2_suffix
func.func @P2_suffix(%x: tensor<4x8x6xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
  %0 = linalg.generic {indexing_maps = [#abc, #c], iterator_types = ["reduction", "parallel", "reduction"]}
      ins(%x : tensor<4x8x6xf32>) outs(%o : tensor<8xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.addf %e, %acc : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK: func.func @P2_all
func.func @P2_all(%x: tensor<4x8xf32>, %o: tensor<f32>) -> tensor<f32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 2, totals = refold>
  %0 = linalg.generic {indexing_maps = [#ab, affine_map<(d0, d1) -> ()>], iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.addf %acc, %e : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// A window is reduced where its map expression uses a reduction dimension; its own operand is not read.
// CHECK: func.func @P2_pooling
func.func @P2_pooling(%x: tensor<2x3x8x8xf32>, %o: tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32> {
  %w = tensor.empty() : tensor<2x2xf32>
  // CHECK-NOT: linalg.generic
  // CHECK: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 2, totals = refold>
  %0 = linalg.pooling_nchw_sum {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%x, %w : tensor<2x3x8x8xf32>, tensor<2x2xf32>) outs(%o : tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}

// The extents have no say (P0).
// CHECK: func.func @P0_unit
func.func @P0_unit(%x: tensor<1x1xf32>, %o: tensor<1xf32>) -> tensor<1xf32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
  %0 = linalg.generic {indexing_maps = [#ab, #b], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<1x1xf32>) outs(%o : tensor<1xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.addf %acc, %e : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  return %0 : tensor<1xf32>
}

// CHECK: func.func @F5_maximum
func.func @F5_maximum(%x: tensor<4x8xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: repro.fold #repro.any_order
  %0 = linalg.generic {indexing_maps = [#ab, #a], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.maximumf %e, %acc : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// (F6) The body is no op(acc, f(inputs)); linalg.index becomes repro.index.
// CHECK: func.func @F6_sequential
func.func @F6_sequential(%x: tensor<4x8xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: repro.fold #repro.sequential
  // CHECK: repro.index 1
  %0 = linalg.generic {indexing_maps = [#ab, #a], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %s = arith.addf %e, %acc : f32
    %t = arith.mulf %s, %k : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// (F7) Elements convert exactly; the sum and its result's rounding are the fold's.
// CHECK: func.func @F7_sum_bf16
func.func @F7_sum_bf16(%x: tensor<4x8xbf16>, %o: tensor<4xbf16>) -> tensor<4xbf16> {
  // CHECK: ^bb0(%[[E:.*]]: bf16, %[[ACC:.*]]: f32):
  // CHECK-NEXT: %[[W:.*]] = arith.extf %[[E]] : bf16 to f32
  // CHECK-NEXT: %[[S:.*]] = arith.addf %[[W]], %[[ACC]] : f32
  // CHECK-NEXT: repro.yield %[[S]] : f32
  %0 = linalg.generic {indexing_maps = [#ab, #a], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xbf16>) outs(%o : tensor<4xbf16>) {
  ^bb0(%e: bf16, %acc: bf16):
    %s = arith.addf %e, %acc : bf16
    linalg.yield %s : bf16
  } -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}
