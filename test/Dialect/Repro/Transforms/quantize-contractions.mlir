// Operands and results of contractions in lower precision.
// RUN: %repro-opt --repro-quantize-contractions --repro-verify-canonical --split-input-file %s | FileCheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// Tensors of 16 bits are read directly; tf32 is computed with the bits of (V4).
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x64xf32> {{.*}}, %[[X:[^:]*]]: tensor<8x64xf32>)
// CHECK: %[[ROUNDED:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<4x64xf32>)
// CHECK: arith.cmpf uno
// CHECK: arith.bitcast {{.*}} : f32 to i32
// CHECK: arith.select
// CHECK: arith.bitcast {{.*}} : i32 to f32
// CHECK: %[[SHORT:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<8x64xf32>) outs({{.*}} : tensor<8x64xbf16>)
// CHECK: arith.truncf {{.*}} : f32 to bf16
// CHECK: repro.fold {{.*}} ins(%[[SHORT]], %[[ROUNDED]] : tensor<8x64xbf16>, tensor<4x64xf32>)
// CHECK-NOT: repro.precision
// CHECK: ^bb0(%[[A:.*]]: bf16, %[[B:.*]]: f32, %[[ACC:.*]]: f32):
// CHECK: %[[E:.*]] = arith.extf %[[A]] : bf16 to f32
// CHECK: math.fma %[[E]], %[[B]], %[[ACC]] : f32
// CHECK: arith.truncf {{.*}} : f32 to bf16
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins({{.*}} : tensor<8x4xbf16>) outs({{.*}} : tensor<8x4xf32>)
// CHECK: return %[[W]], %[[R]]
func.func @main(%w: tensor<4x64xf32> {repro.name = "w"}, %x: tensor<8x64xf32>)
    -> (tensor<4x64xf32>, tensor<8x4xf32>) attributes {repro.num_state = 1 : i64} {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %zero = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<8x4xf32>) {
  ^bb0(%o: f32):
    linalg.yield %c : f32
  } -> tensor<8x4xf32>
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#mk, #nk, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<8x64xf32>, tensor<4x64xf32>) outs(%zero : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = bf16}, right = {format = tf32}, result = bf16}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %w, %0 : tensor<4x64xf32>, tensor<8x4xf32>
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#mx = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = rne>>
#nv = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 16, scale = #repro.two_level_scale<largest = 448>,
    rounding = #repro.rounding<direction = sr, bits = 8>>

// Blocks lie along K. The state gets seed and step. Equal requests share one quantization.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[^:]*]]: tensor<8x64xf32> {{.*}}, %[[SEED:[^:]*]]: tensor<i64> {repro.name = "seed"},
// CHECK-SAME: %[[STEP:[^:]*]]: tensor<i64> {repro.name = "step"}, %[[V:[^:]*]]: tensor<64x4xf32>)
// CHECK-SAME: repro.num_state = 3 : i64
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[V]] : tensor<64x4xf32>) outs({{.*}} : tensor<4x64xf32>)
// CHECK: %[[CODES:.*]], %[[SCALES:.*]] = repro.quantize <element = f4E2M1FN, rows = 1, columns = 32,{{.*}}> %[[T]] :
// CHECK: %[[D:.*]] = repro.dequantize {{.*}} %[[CODES]], %[[SCALES]]
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[D]] : tensor<4x64xf32>) outs({{.*}} : tensor<64x4xf32>)
// CHECK: repro.quantize <element = f4E2M1FN, rows = 1, columns = 32,{{.*}}> %[[X]] :
// CHECK: %[[P:.*]] = repro.dequantize
// CHECK-DAG: %[[S0:.*]] = tensor.extract %[[SEED]][] : tensor<i64>
// CHECK-DAG: %[[S1:.*]] = tensor.extract %[[STEP]][] : tensor<i64>
// CHECK: %[[AMAX:.*]] = repro.fold #repro.any_order {{.*}} iterators [reduction, reduction]
// CHECK: math.absf
// CHECK: arith.maximumf
// CHECK: repro.quantize {{.*}} tensor(%[[AMAX]] : tensor<f32>) site = 0(%[[S0]], %[[S1]] : i64, i64)
// CHECK: repro.fold {{.*}} ins(%[[P]], %[[Q]] :
// CHECK: repro.fold {{.*}} ins(%[[P]], %{{.*}} :
// CHECK: %[[NEXT:.*]] = linalg.generic {{.*}} ins(%[[STEP]] : tensor<i64>)
// CHECK: arith.addi
// CHECK: return %[[X]], %[[SEED]], %[[NEXT]]
func.func @main(%x: tensor<8x64xf32> {repro.name = "x"}, %v: tensor<64x4xf32>)
    -> (tensor<8x64xf32>, tensor<8x4xf32>, tensor<8x4xf32>) attributes {repro.num_state = 1 : i64} {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %zero = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<8x4xf32>) {
  ^bb0(%o: f32):
    linalg.yield %c : f32
  } -> tensor<8x4xf32>
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x64xf32>, tensor<64x4xf32>) outs(%zero : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #mx}, right = {format = #mx}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  %1 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x64xf32>, tensor<64x4xf32>) outs(%zero : tensor<8x4xf32>)
      attributes {repro.precision = {left = {forward = array<i64: 0, 0>}, right = {format = #nv}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %x, %0, %1 : tensor<8x64xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#mx = #repro.block_format<element = f8E4M3FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = rne>>

// The gradient reads the forward pass's values, which are moved back to the layout of their common source.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x64xf32>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<4x64xf32>) outs({{.*}} : tensor<64x4xf32>)
// CHECK: repro.quantize {{.*}} : tensor<4x64xf32> ->
// CHECK: repro.dequantize
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<64x4xf32>)
// CHECK: repro.fold {{.*}} ins({{.*}}, %[[Q]] : tensor<8x64xf32>, tensor<64x4xf32>)
// CHECK: %[[BACK:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<64x4xf32>) outs({{.*}} : tensor<4x64xf32>)
// CHECK: repro.fold {{.*}} ins({{.*}}, %[[BACK]] : tensor<8x4xf32>, tensor<4x64xf32>)
#kn = affine_map<(m, n, k) -> (k, n)>
func.func @main(%w: tensor<4x64xf32> {repro.name = "w"}, %x: tensor<8x64xf32>)
    -> (tensor<4x64xf32>, tensor<8x64xf32>) attributes {repro.num_state = 1 : i64} {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %zero = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<8x4xf32>) {
  ^bb0(%o: f32):
    linalg.yield %c : f32
  } -> tensor<8x4xf32>
  %f = tensor.empty() : tensor<8x64xf32>
  %zeros = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      outs(%f : tensor<8x64xf32>) {
  ^bb0(%o: f32):
    linalg.yield %c : f32
  } -> tensor<8x64xf32>
  %g = tensor.empty() : tensor<64x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<4x64xf32>) outs(%g : tensor<64x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<64x4xf32>
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %t : tensor<8x64xf32>, tensor<64x4xf32>) outs(%zero : tensor<8x4xf32>)
      attributes {repro.precision = {right = {format = #mx}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  %1 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%0, %w : tensor<8x4xf32>, tensor<4x64xf32>) outs(%zeros : tensor<8x64xf32>)
      attributes {repro.precision = {right = {forward = array<i64: 0, 1>}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x64xf32>
  return %w, %1 : tensor<4x64xf32>, tensor<8x64xf32>
}

// -----

// A batch without matrices is reshaped like any other batch.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<0x5x64xf32>, %w: tensor<0x4x64xf32>, %o: tensor<0x5x4xf32>)
    -> tensor<0x5x4xf32> attributes {repro.num_state = 0 : i64} {
  // CHECK: repro.quantize {{.*}} : tensor<0x5x64xf32>
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>,
            affine_map<(b, m, n, k) -> (b, m, n)>] iterators [parallel, parallel, parallel, reduction]
      ins(%x, %w : tensor<0x5x64xf32>, tensor<0x4x64xf32>) outs(%o : tensor<0x5x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f4E2M1FN, rows = 32, columns = 32,
          scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<0x5x4xf32>
  return %0 : tensor<0x5x4xf32>
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#given = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
    rounding = #repro.rounding<direction = rne>>
#last = #repro.block_format<element = f8E5M2, rows = 0, columns = 0, scale = #repro.given_scale,
    rounding = #repro.rounding<direction = rne>>

// (Q6) Factors with the same name share a scale and an amax over all of them. A scale without a history is constant.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x64xf32> {repro.name = "w"}, %[[AH:[^:]*]]: tensor<4xf32> {repro.name = "amax_history.a"},
// CHECK-SAME: %[[A:[^:]*]]: tensor<f32> {repro.name = "scale.a"}, %[[BH:[^:]*]]: tensor<1xf32> {repro.name = "amax_history.b"},
// CHECK-SAME: %[[B:[^:]*]]: tensor<f32> {repro.name = "scale.b"}, %[[C:[^:]*]]: tensor<f32> {repro.name = "scale.c"},
// CHECK-SAME: repro.num_state = 6 : i64
// CHECK: %[[AMAX_W:.*]] = repro.fold #repro.any_order {{.*}} ins(%[[W]] :
// CHECK: repro.quantize {{.*}} scale = #repro.given_scale, {{.*}} %[[W]] tensor(%[[A]] : tensor<f32>)
// CHECK: repro.dequantize
// CHECK-NOT: repro.fold #repro.any_order
// CHECK: repro.quantize {{.*}} tensor(%[[C]] : tensor<f32>)
// CHECK: %[[AMAX_B:.*]] = repro.fold #repro.any_order
// CHECK: repro.quantize {{.*}} tensor(%[[B]] : tensor<f32>)
// CHECK: %[[AMAX_X:.*]] = repro.fold #repro.any_order
// CHECK: repro.quantize {{.*}} tensor(%[[A]] : tensor<f32>)
// CHECK: %[[BOTH:.*]] = linalg.generic {{.*}} ins(%[[AMAX_X]], %[[AMAX_W]] :
// CHECK: arith.maximumf
// CHECK: %[[FIRST:.*]] = linalg.generic {{.*}} ins(%[[BOTH]] : tensor<f32>) outs({{.*}} : tensor<1xf32>)
// CHECK: %[[FORMER:.*]] = tensor.extract_slice %[[AH]][0] [3] [1]
// CHECK: %[[AH1:.*]] = tensor.concat dim(0) %[[FIRST]], %[[FORMER]]
// CHECK: %[[MAX:.*]] = repro.fold #repro.any_order {{.*}} ins(%[[AH1]] :
// CHECK-DAG: %[[LARGEST:.*]] = arith.constant 4.480000e+02
// CHECK-DAG: %[[POWER:.*]] = arith.constant 4.000000e+00
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00
// CHECK-DAG: %[[INF:.*]] = arith.constant 0x7F800000
// CHECK-DAG: %[[MOST:.*]] = arith.constant 3.40282347E+38
// CHECK: %[[A1:.*]] = linalg.generic {{.*}} ins(%[[MAX]], %[[A]] :
// CHECK: ^bb0(%[[M:.*]]: f32, %[[S:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[D:.*]] = arith.divf %[[LARGEST]], %[[M]]
// CHECK: %[[Q:.*]] = arith.divf %[[D]], %[[POWER]]
// CHECK: %[[IS_INF:.*]] = arith.cmpf oeq, %[[Q]], %[[INF]]
// CHECK: %[[NEXT:.*]] = arith.select %[[IS_INF]], %[[MOST]], %[[Q]]
// CHECK: %[[ABOVE:.*]] = arith.cmpf ogt, %[[M]], %[[ZERO]]
// CHECK: %[[FINITE:.*]] = arith.cmpf olt, %[[M]], %[[INF]]
// CHECK: %[[NUMBER:.*]] = arith.andi %[[ABOVE]], %[[FINITE]]
// CHECK: arith.select %[[NUMBER]], %[[NEXT]], %[[S]]
// CHECK: %[[BH1:.*]] = linalg.generic {{.*}} ins(%[[AMAX_B]] : tensor<f32>) outs({{.*}} : tensor<1xf32>)
// CHECK: arith.constant 5.734400e+04
// CHECK: %[[B1:.*]] = linalg.generic {{.*}} ins(%[[AMAX_B]], %[[B]] :
// CHECK: return %[[W]], %[[AH1]], %[[A1]], %[[BH1]], %[[B1]], %[[C]],
func.func @main(%w: tensor<4x64xf32> {repro.name = "w"}, %x: tensor<8x64xf32>, %y: tensor<8x64xf32>)
    -> (tensor<4x64xf32>, tensor<8x4xf32>, tensor<8x4xf32>) attributes {repro.num_state = 1 : i64} {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %zero = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<8x4xf32>) {
  ^bb0(%o: f32):
    linalg.yield %c : f32
  } -> tensor<8x4xf32>
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#mk, #nk, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<8x64xf32>, tensor<4x64xf32>) outs(%zero : tensor<8x4xf32>)
      attributes {repro.precision = {
        left = {format = #given, delayed = {name = "a", history = 4, margin = 2}},
        right = {format = #last, delayed = {name = "b", history = 1, most_recent}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  %1 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#mk, #nk, #mn] iterators [parallel, parallel, reduction]
      ins(%y, %w : tensor<8x64xf32>, tensor<4x64xf32>) outs(%zero : tensor<8x4xf32>)
      attributes {repro.precision = {
        left = {format = #given, delayed = {name = "c"}},
        right = {format = #given, delayed = {name = "a", history = 4, margin = 2}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %w, %0, %1 : tensor<4x64xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}
