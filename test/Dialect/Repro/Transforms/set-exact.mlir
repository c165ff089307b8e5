// (K4) Contractions (K1) with f32 accumulators get the order, all or some of them.
// RUN: %repro-opt --repro-set-exact %s | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: %repro-opt --repro-set-exact='digits=2 contractions=1' %s | FileCheck %s --check-prefixes=CHECK,SECOND
// RUN: not %repro-opt --repro-set-exact='digits=4' %s 2>&1 | FileCheck %s --check-prefix=DIGITS
// RUN: not %repro-opt --repro-set-exact='contractions=0,2' %s 2>&1 | FileCheck %s --check-prefix=NUMBER

// DIGITS: error: {{.*}}digits
// NUMBER: error: expected numbers of contractions below 2, got 2

#mk = affine_map<(d0, d1, d2) -> (d0, d2)>
#kn = affine_map<(d0, d1, d2) -> (d2, d1)>
#mn = affine_map<(d0, d1, d2) -> (d0, d1)>

// CHECK: func.func @K4_contractions
func.func @K4_contractions(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>, %z: tensor<4x8xf64>, %w: tensor<8x4xf64>,
                           %o: tensor<4x4xf32>, %p: tensor<4x4xf64>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf64>, tensor<4x4xf32>) {
  // ALL: repro.fold #repro.exact<digits = 3>
  // SECOND: repro.fold #repro.order<
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %y : tensor<4x8xf32>, tensor<8x4xf32>) outs(%o : tensor<4x4xf32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %s = math.fma %e, %f, %acc : f32
    repro.yield %s : f32
  } -> tensor<4x4xf32>
  // ALL: repro.fold #repro.exact<digits = 3>
  // SECOND: repro.fold #repro.exact<digits = 2>
  %1 = repro.fold maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %y : tensor<4x8xf32>, tensor<8x4xf32>) outs(%o : tensor<4x4xf32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %s = math.fma %e, %f, %acc : f32
    repro.yield %s : f32
  } -> tensor<4x4xf32>
  // Products of f64, and a sum whose addends are not products of inputs.
  // CHECK: repro.fold maps
  %2 = repro.fold maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%z, %w : tensor<4x8xf64>, tensor<8x4xf64>) outs(%p : tensor<4x4xf64>) {
  ^bb0(%e: f64, %f: f64, %acc: f64):
    %s = math.fma %e, %f, %acc : f64
    repro.yield %s : f64
  } -> tensor<4x4xf64>
  // CHECK: repro.fold maps
  %3 = repro.fold maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %y : tensor<4x8xf32>, tensor<8x4xf32>) outs(%o : tensor<4x4xf32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %n = arith.negf %e : f32
    %s = math.fma %n, %f, %acc : f32
    repro.yield %s : f32
  } -> tensor<4x4xf32>
  return %0, %1, %2, %3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf64>, tensor<4x4xf32>
}
