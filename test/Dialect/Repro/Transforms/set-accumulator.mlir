// (M4) Contractions (K1) with f32 accumulators get the order, all or some of them; the pass looks through extensions.
// RUN: %repro-opt --repro-set-accumulator %s | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: %repro-opt --repro-set-accumulator='terms=8 fraction=0 round=rne_f32 floor=0 late=true chunk=32 contractions=1' %s | FileCheck %s --check-prefixes=CHECK,SECOND
// RUN: %repro-opt --repro-set-exact %s | FileCheck %s --check-prefix=EXACT
// RUN: not %repro-opt --repro-set-accumulator='terms=129' %s 2>&1 | FileCheck %s --check-prefix=TERMS
// RUN: not %repro-opt --repro-set-accumulator='round=up' %s 2>&1 | FileCheck %s --check-prefix=ROUND
// RUN: not %repro-opt --repro-set-accumulator='contractions=2' %s 2>&1 | FileCheck %s --check-prefix=NUMBER

// TERMS: error: {{.*}}(M1) terms must be 1 to 128, got 129
// ROUND: error: (M4) expected round to be rz_f32, rz_e8m13, rne_f16 or rne_f32, and start zero or init, got up and zero
// NUMBER: error: expected numbers of contractions below 2, got 2

#mk = affine_map<(d0, d1, d2) -> (d0, d2)>
#kn = affine_map<(d0, d1, d2) -> (d2, d1)>
#mn = affine_map<(d0, d1, d2) -> (d0, d1)>
#same = affine_map<(d0, d1) -> (d0, d1)>
#turned = affine_map<(d0, d1) -> (d1, d0)>

// CHECK-DAG: #[[NK:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>

// CHECK: func.func @M4_contractions(%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<4x8xbf16>
func.func @M4_contractions(%x: tensor<4x8xf32>, %y: tensor<4x8xbf16>, %o: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %e = tensor.empty() : tensor<8x4xf32>
  // SECOND: linalg.generic
  // ALL-NOT: linalg.generic
  %w = linalg.generic {indexing_maps = [#turned, #same], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<4x8xbf16>) outs(%e : tensor<8x4xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %0 = arith.extf %in : bf16 to f32
    linalg.yield %0 : f32
  } -> tensor<8x4xf32>
  // ALL: repro.fold #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = -133> maps [#{{.*}}, #[[NK]], #{{.*}}] {{.*}} ins(%[[X]], %[[Y]] : tensor<4x8xf32>, tensor<4x8xbf16>)
  // ALL-NEXT: ^bb0(%[[E:.*]]: f32, %[[F:.*]]: bf16, %[[ACC:.*]]: f32):
  // ALL-NEXT: %[[WIDE:.*]] = arith.extf %[[F]] : bf16 to f32
  // ALL-NEXT: math.fma %[[E]], %[[WIDE]], %[[ACC]] : f32
  // SECOND: repro.fold #repro.order<
  // EXACT: repro.fold #repro.exact<digits = 3> {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8x4xf32>)
  %1 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<4x8xf32>, tensor<8x4xf32>) outs(%o : tensor<4x4xf32>) {
  ^bb0(%e0: f32, %f: f32, %acc: f32):
    %s = math.fma %e0, %f, %acc : f32
    repro.yield %s : f32
  } -> tensor<4x4xf32>
  // ALL: repro.fold #repro.fdpa<terms = 16
  // SECOND: repro.fold #repro.fdpa<terms = 8, round = rne_f32, floor = 0, late = true, chunk = 32> {{.*}} ins(%[[X]], %[[X]]
  // EXACT: repro.fold #repro.exact<digits = 3>
  %2 = repro.fold maps [#mk, affine_map<(d0, d1, d2) -> (d1, d2)>, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%o : tensor<4x4xf32>) {
  ^bb0(%e0: f32, %f: f32, %acc: f32):
    %s = math.fma %e0, %f, %acc : f32
    repro.yield %s : f32
  } -> tensor<4x4xf32>
  return %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}
