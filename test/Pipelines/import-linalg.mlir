// A training step in torch-mlir's output becomes a canonical program.
// RUN: %repro-opt --allow-unregistered-dialect --pass-pipeline='builtin.module(import-linalg,canonical)' %s | FileCheck %s
// The result is a fixed point of the canonical pipeline.
// RUN: %repro-opt --allow-unregistered-dialect --pass-pipeline='builtin.module(import-linalg,canonical)' %s -o %t.1
// RUN: %repro-opt --pass-pipeline='builtin.module(canonical)' %t.1 -o %t.2
// RUN: diff %t.1 %t.2
// No pass folds before elementary functions are repro operations; every stage ends with the passes of its contract.
// RUN: %repro-opt --dump-pass-pipeline --allow-unregistered-dialect --pass-pipeline='builtin.module(import-linalg,canonical)' %s 2>&1 >/dev/null | FileCheck %s --check-prefix=PASSES

// PASSES: builtin.module(
// PASSES-NEXT: repro-strip-attributes
// PASSES-NEXT: convert-tm-tensor-to-repro
// PASSES-NEXT: convert-math-to-repro
// PASSES-NEXT: repro-unroll-loops
// PASSES-NEXT: convert-linalg-to-repro
// PASSES-NEXT: repro-decompose-attention
// PASSES-NEXT: repro-decompose-convolution
// PASSES-NEXT: repro-decompose-distributions
// PASSES-NEXT: repro-widen-storage
// PASSES-NEXT: repro-assign-orders
// PASSES-NEXT: repro-fold-constants
// PASSES-NEXT: cse
// PASSES-NEXT: repro-verify-canonical

// CHECK: func.func @main(%[[W:[a-z0-9]+]]: tensor<8x4xf32> {repro.name = "w"}, %[[SEED:[a-z0-9]+]]: tensor<i64>, %[[STEP:[a-z0-9]+]]: tensor<i64>, %[[X:[a-z0-9]+]]: tensor<2x8xf32>)
// CHECK-SAME: attributes {repro.num_state = 3 : i64}
// CHECK: %[[R:.*]] = repro.random uniform site = 0
// CHECK: %[[MASK:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[R]]
// CHECK: %[[ZERO:.*]] = linalg.generic
// CHECK: %[[H:.*]] = repro.fold {{.*}} ins(%[[MASK]], %[[W]] : tensor<2x8xf32>, tensor<8x4xf32>) outs(%[[ZERO]] : tensor<2x4xf32>)
// CHECK: math.fma
// CHECK: repro.fold #repro.any_order
// CHECK: repro.exp
// CHECK: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
// CHECK: return %[[W]], %[[SEED]]
#ab = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1) -> (d0)>
#a0 = affine_map<(d0, d1) -> (d0, 0)>
#s = affine_map<() -> ()>
func.func @main(%w: tensor<8x4xf32> {repro.name = "w"}, %seed: tensor<i64>, %step: tensor<i64>, %x: tensor<2x8xf32>)
    -> (tensor<8x4xf32>, tensor<i64>, tensor<i64>, tensor<2x1xf32>) attributes {repro.num_state = 3 : i64} {
  %keep = arith.constant 0.9 : f64
  %zero = arith.constant 0.0 : f32
  %zero_i = arith.constant 0 : i64
  %lowest = arith.constant 0xFF800000 : f32
  %seed_i = tensor.extract %seed[] : tensor<i64>
  %step_i = tensor.extract %step[] : tensor<i64>
  %e28 = tensor.empty() : tensor<2x8xf32>
  %r = "repro.random"(%seed_i, %step_i, %e28) {distribution = #repro<distribution uniform>, site = 0 : i64,
      operandSegmentSizes = array<i32: 2, 1>} : (i64, i64, tensor<2x8xf32>) -> tensor<2x8xf32>
  %masked = linalg.generic {indexing_maps = [#ab, #ab, #ab], iterator_types = ["parallel", "parallel"]}
      ins(%x, %r : tensor<2x8xf32>, tensor<2x8xf32>) outs(%e28 : tensor<2x8xf32>) {
  ^bb0(%v: f32, %u: f32, %out: f32):
    %p = arith.truncf %keep : f64 to f32
    %c = arith.cmpf olt, %u, %p : f32
    %d = arith.select %c, %v, %zero : f32
    linalg.yield %d : f32
  } -> tensor<2x8xf32>
  %e24 = tensor.empty() : tensor<2x4xf32>
  %f24 = linalg.fill ins(%zero : f32) outs(%e24 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %h = linalg.matmul ins(%masked, %w : tensor<2x8xf32>, tensor<8x4xf32>) outs(%f24 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %e2 = tensor.empty() : tensor<2xf32>
  %i2 = tensor.empty() : tensor<2xi64>
  %m0 = linalg.fill ins(%lowest : f32) outs(%e2 : tensor<2xf32>) -> tensor<2xf32>
  %n0 = linalg.fill ins(%zero_i : i64) outs(%i2 : tensor<2xi64>) -> tensor<2xi64>
  %m:2 = linalg.generic {indexing_maps = [#ab, #a, #a], iterator_types = ["parallel", "reduction"]}
      ins(%h : tensor<2x4xf32>) outs(%m0, %n0 : tensor<2xf32>, tensor<2xi64>) {
  ^bb0(%v: f32, %acc: f32, %at: i64):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %k = arith.maximumf %v, %acc : f32
    %c = arith.cmpf ogt, %v, %acc : f32
    %n = arith.select %c, %j, %at : i64
    linalg.yield %k, %n : f32, i64
  } -> (tensor<2xf32>, tensor<2xi64>)
  %mx = tensor.expand_shape %m#0 [[0, 1]] output_shape [2, 1] : tensor<2xf32> into tensor<2x1xf32>
  %ex = linalg.generic {indexing_maps = [#ab, #a0, #ab], iterator_types = ["parallel", "parallel"]}
      ins(%h, %mx : tensor<2x4xf32>, tensor<2x1xf32>) outs(%e24 : tensor<2x4xf32>) {
  ^bb0(%v: f32, %t: f32, %out: f32):
    %d = arith.subf %v, %t : f32
    %k = math.exp %d : f32
    linalg.yield %k : f32
  } -> tensor<2x4xf32>
  %e21 = tensor.empty() : tensor<2x1xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e21 : tensor<2x1xf32>) -> tensor<2x1xf32>
  %sum = linalg.generic {indexing_maps = [#ab, #a0], iterator_types = ["parallel", "reduction"]}
      ins(%ex : tensor<2x4xf32>) outs(%s0 : tensor<2x1xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %k = arith.addf %v, %acc : f32
    linalg.yield %k : f32
  } -> tensor<2x1xf32>
  %e = tensor.empty() : tensor<i64>
  %next = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%step : tensor<i64>) outs(%e : tensor<i64>) {
  ^bb0(%v: i64, %out: i64):
    %one = arith.constant 1 : i64
    %k = arith.addi %v, %one : i64
    linalg.yield %k : i64
  } -> tensor<i64>
  return %w, %seed, %next, %sum : tensor<8x4xf32>, tensor<i64>, tensor<i64>, tensor<2x1xf32>
}
