// (V3) Only folding that keeps every bit is done; all other operations stay.
// RUN: %repro-opt --repro-fold-constants --split-input-file %s | FileCheck %s

// CHECK: func.func @V3_kept(%[[X:[a-z0-9]+]]: f32)
func.func @V3_kept(%x: f32) -> (f32, f32, f32, f32, f32, f32, f32) {
  // CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK-DAG: %[[NEG:.*]] = arith.constant -0.000000e+00 : f32
  // CHECK-DAG: %[[THREE:.*]] = arith.constant 3.000000e+00 : f32
  %zero = arith.constant 0.0 : f32
  %neg = arith.constant -0.0 : f32
  %three = arith.constant 3.0 : f32
  // CHECK: arith.addf %[[X]], %[[ZERO]]
  %0 = arith.addf %x, %zero : f32
  // CHECK: arith.subf %[[ZERO]], %[[X]]
  %1 = arith.subf %zero, %x : f32
  // CHECK: arith.mulf %[[X]], %[[ZERO]]
  %2 = arith.mulf %x, %zero : f32
  // CHECK: arith.subf %[[X]], %[[X]]
  %3 = arith.subf %x, %x : f32
  // CHECK: arith.divf %[[X]], %[[THREE]]
  %4 = arith.divf %x, %three : f32
  // CHECK: arith.divf %[[X]], %[[X]]
  %5 = arith.divf %x, %x : f32
  // CHECK: arith.subf %[[X]], %[[NEG]]
  %6 = arith.subf %x, %neg : f32
  return %0, %1, %2, %3, %4, %5, %6 : f32, f32, f32, f32, f32, f32, f32
}

// -----

// CHECK: func.func @V3_chains(%[[X:[a-z0-9]+]]: f32, %[[Y:[a-z0-9]+]]: i64)
func.func @V3_chains(%x: f32, %y: i64) -> (f32, f32, bf16, f32, i1) {
  %half = arith.constant 0.5 : f32
  // Two scalings do not merge, and sums do not reassociate.
  // CHECK-COUNT-2: arith.mulf
  %0 = arith.mulf %x, %half : f32
  %1 = arith.mulf %0, %half : f32
  // CHECK-COUNT-2: arith.addf
  %2 = arith.addf %x, %half : f32
  %3 = arith.addf %2, %half : f32
  // Two roundings do not merge.
  // CHECK: arith.sitofp %[[Y]] : i64 to f32
  // CHECK-NEXT: arith.truncf
  %4 = arith.sitofp %y : i64 to f32
  %5 = arith.truncf %4 : f32 to bf16
  // CHECK: arith.truncf %[[X]]
  // CHECK-NEXT: arith.extf
  %6 = arith.truncf %x : f32 to bf16
  %7 = arith.extf %6 : bf16 to f32
  // A NaN is not equal to itself.
  // CHECK: arith.cmpf oeq, %[[X]], %[[X]]
  %8 = arith.cmpf oeq, %x, %x : f32
  return %1, %3, %5, %7, %8 : f32, f32, bf16, f32, i1
}

// -----

// CHECK: func.func @V3_exact(%[[X:[a-z0-9]+]]: f32, %[[B:[a-z0-9]+]]: bf16)
func.func @V3_exact(%x: f32, %b: bf16) -> (f32, f32, f32, f32, f32, bf16) {
  %zero = arith.constant 0.0 : f32
  %neg = arith.constant -0.0 : f32
  %one = arith.constant 1.0 : f32
  %0 = arith.addf %neg, %x : f32
  %1 = arith.subf %x, %zero : f32
  %2 = arith.mulf %x, %one : f32
  %3 = arith.divf %x, %one : f32
  %4 = arith.negf %x : f32
  %5 = arith.negf %4 : f32
  %6 = arith.extf %b : bf16 to f32
  %7 = arith.truncf %6 : f32 to bf16
  // CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[B]]
  return %0, %1, %2, %3, %5, %7 : f32, f32, f32, f32, f32, bf16
}

// -----

// CHECK: func.func @S1_constants
func.func @S1_constants() -> (f32, f32, f32, f32, f32) {
  %third = arith.constant 0.3333333333333333 : f64
  %a = arith.constant 1.0e+08 : f32
  %b = arith.constant 1.0 : f32
  // CHECK-DAG: %[[T:.*]] = arith.constant 0.333333343 : f32
  %0 = arith.truncf %third : f64 to f32
  // CHECK-DAG: %[[S:.*]] = arith.constant 1.000000e+08 : f32
  %1 = arith.addf %a, %b : f32
  // CHECK-DAG: %[[INF:.*]] = arith.constant 0x7F800000 : f32
  %zero = arith.constant 0.0 : f32
  %2 = arith.divf %b, %zero : f32
  // Subnormals are kept.
  // CHECK-DAG: %[[SUB:.*]] = arith.constant 1.000530e-42 : f32
  %tiny = arith.constant 1.0e-38 : f32
  %scale = arith.constant 1.0e-04 : f32
  %3 = arith.mulf %tiny, %scale : f32
  // CHECK-DAG: %[[NEG:.*]] = arith.constant -0.000000e+00 : f32
  %negone = arith.constant -1.0 : f32
  %4 = arith.mulf %zero, %negone : f32
  // CHECK: return %[[T]], %[[S]], %[[INF]], %[[SUB]], %[[NEG]]
  return %0, %1, %2, %3, %4 : f32, f32, f32, f32, f32
}

// -----

// (V1) bf16 is converted; it has no arithmetic of its own.
// CHECK: func.func @V1_storage
func.func @V1_storage() -> (bf16, bf16) {
  // CHECK-DAG: %[[ONE:.*]] = arith.constant 1.000000e+00 : bf16
  // CHECK-DAG: %[[S:.*]] = arith.constant 2.560000e+02 : bf16
  // CHECK: %[[R:.*]] = arith.addf %[[S]], %[[ONE]] : bf16
  %a = arith.constant 256.0 : bf16
  %b = arith.constant 1.0 : bf16
  %0 = arith.extf %a : bf16 to f32
  %1 = arith.extf %b : bf16 to f32
  %2 = arith.addf %0, %1 : f32
  %3 = arith.truncf %2 : f32 to bf16
  %4 = arith.addf %a, %b : bf16
  // CHECK: return %[[S]], %[[R]]
  return %3, %4 : bf16, bf16
}

// -----

// (S2), (S3), (S4) Scalar operations of constants.
// CHECK: func.func @S2_S3_S4
func.func @S2_S3_S4() -> (f32, f32, i32, i32, i8, f32, f32) {
  %nan = arith.constant 0x7FC00000 : f32
  %zero = arith.constant 0.0 : f32
  %neg = arith.constant -0.0 : f32
  %big = arith.constant 3.0e+10 : f32
  %minus = arith.constant -5.5 : f32
  %half = arith.constant 2.5 : f32
  // CHECK-DAG: %[[NAN:.*]] = arith.constant 0x7FC00000 : f32
  %0 = arith.maximumf %nan, %zero : f32
  // CHECK-DAG: %[[NEG:.*]] = arith.constant -0.000000e+00 : f32
  %1 = arith.minimumf %zero, %neg : f32
  // CHECK-DAG: %[[MAX:.*]] = arith.constant 2147483647 : i32
  %2 = arith.fptosi %big : f32 to i32
  // CHECK-DAG: %[[NONE:.*]] = arith.constant 0 : i32
  %3 = arith.fptosi %nan : f32 to i32
  // CHECK-DAG: %[[LOW:.*]] = arith.constant 0 : i8
  %4 = arith.fptoui %minus : f32 to i8
  // CHECK-DAG: %[[EVEN:.*]] = arith.constant 2.000000e+00 : f32
  %5 = math.roundeven %half : f32
  // CHECK-DAG: %[[AWAY:.*]] = arith.constant 3.000000e+00 : f32
  %6 = math.round %half : f32
  // CHECK: return %[[NAN]], %[[NEG]], %[[MAX]], %[[NONE]], %[[LOW]], %[[EVEN]], %[[AWAY]]
  return %0, %1, %2, %3, %4, %5, %6 : f32, f32, i32, i32, i8, f32, f32
}

// -----

// (I1) Every division and shift has a value.
// CHECK: func.func @I1
func.func @I1() -> (i32, i32, i32, i32, i32, i32, i32, i32) {
  %zero = arith.constant 0 : i32
  %seven = arith.constant 7 : i32
  %min = arith.constant -2147483648 : i32
  %minus = arith.constant -1 : i32
  %wide = arith.constant 40 : i32
  // CHECK-DAG: %[[M1:.*]] = arith.constant -1 : i32
  // CHECK-DAG: %[[SEVEN:.*]] = arith.constant 7 : i32
  // CHECK-DAG: %[[MIN:.*]] = arith.constant -2147483648 : i32
  // CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i32
  %0 = arith.divsi %seven, %zero : i32
  %1 = arith.divui %seven, %zero : i32
  %2 = arith.remsi %seven, %zero : i32
  %3 = arith.divsi %min, %minus : i32
  %4 = arith.remsi %min, %minus : i32
  %5 = arith.shli %seven, %wide : i32
  %6 = arith.shrsi %min, %wide : i32
  %7 = arith.remui %seven, %zero : i32
  // CHECK: return %[[M1]], %[[M1]], %[[SEVEN]], %[[MIN]], %[[ZERO]], %[[ZERO]], %[[M1]], %[[SEVEN]]
  return %0, %1, %2, %3, %4, %5, %6, %7 : i32, i32, i32, i32, i32, i32, i32, i32
}

// -----

// CHECK: func.func @I1_kept(%[[X:[a-z0-9]+]]: i32)
func.func @I1_kept(%x: i32) -> (i32, i32) {
  // 0 / x is -1, not 0, for x = 0.
  // CHECK: arith.divsi
  %zero = arith.constant 0 : i32
  %0 = arith.divsi %zero, %x : i32
  // CHECK: arith.divsi %[[X]], %[[X]]
  %1 = arith.divsi %x, %x : i32
  return %0, %1 : i32, i32
}

// -----

// (S5) The compiler does not evaluate elementary functions of constants.
// CHECK: func.func @S5_functions
func.func @S5_functions() -> (f32, f32) {
  %two = arith.constant 2.0 : f32
  // CHECK: repro.exp
  %0 = repro.exp %two : f32
  // CHECK: math.sqrt
  %1 = math.sqrt %two : f32
  return %0, %1 : f32, f32
}

// -----

#id = affine_map<(d0) -> (d0)>
#s = affine_map<(d0) -> ()>
// Constants move into the body and fold there; a destination that is not read becomes empty.
// CHECK: func.func @generic(%[[X:[a-z0-9]+]]: tensor<4xf32>)
func.func @generic(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-DAG: %[[C:.*]] = arith.constant 1.000000e-01 : f32
  // CHECK: %[[E:.*]] = tensor.empty() : tensor<4xf32>
  // CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<4xf32>) outs(%[[E]] : tensor<4xf32>)
  // CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
  // CHECK-NEXT: arith.mulf %[[IN]], %[[C]] : f32
  // CHECK-NEXT: linalg.yield
  %c = arith.constant dense<0.1> : tensor<f64>
  %0 = linalg.generic {indexing_maps = [#id, #s, #id], iterator_types = ["parallel"]}
      ins(%x, %c : tensor<4xf32>, tensor<f64>) outs(%x : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f64, %out: f32):
    %d = arith.truncf %b : f64 to f32
    %p = arith.mulf %a, %d : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
// (E1) A check stays without users of its operation's results; a check that always holds is removed.
// CHECK: func.func @E1_asserts
func.func @E1_asserts(%x: tensor<4xi64>) -> tensor<4xi64> {
  // CHECK-NOT: cf.assert
  %true = arith.constant true
  cf.assert %true, "holds"
  // CHECK: linalg.generic
  // CHECK: cf.assert %{{.*}}, "index out of range"
  %e = tensor.empty() : tensor<4xi64>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xi64>) outs(%e : tensor<4xi64>) {
  ^bb0(%a: i64, %out: i64):
    %ten = arith.constant 10 : i64
    %c = arith.cmpi slt, %a, %ten : i64
    cf.assert %c, "index out of range"
    linalg.yield %a : i64
  } -> tensor<4xi64>
  return %x : tensor<4xi64>
}

// -----

// CHECK: func.func @shapes(%[[X:[a-z0-9]+]]: tensor<4x8xf32>)
func.func @shapes(%x: tensor<4x8xf32>) -> (tensor<8x8xf32>, index) {
  // CHECK-DAG: %[[N:.*]] = arith.constant 32 : index
  // CHECK-DAG: %[[C:.*]] = tensor.concat dim(0) %[[X]], %[[X]] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK: return %[[C]], %[[N]]
  %0 = tensor.cast %x : tensor<4x8xf32> to tensor<?x8xf32>
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %d = tensor.dim %x, %c0 : tensor<4x8xf32>
  %n = arith.muli %d, %c8 : index
  %1 = tensor.concat dim(0) %0, %0 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<8x8xf32>
  return %1, %n : tensor<8x8xf32>, index
}

// -----

// Control flow with constant conditions is removed.
// CHECK: func.func @control_flow(%[[X:[a-z0-9]+]]: f32, %[[I:[a-z0-9]+]]: i64)
func.func @control_flow(%x: f32, %i: i64) -> (f32, f32, i64) {
  // CHECK-NEXT: %[[Y:.*]] = arith.addf %[[X]], %[[X]]
  // CHECK-NEXT: return %[[Y]], %[[X]], %[[I]]
  %true = arith.constant true
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = scf.if %true -> f32 {
    %1 = arith.addf %x, %x : f32
    scf.yield %1 : f32
  } else {
    scf.yield %x : f32
  }
  %2 = scf.for %n = %c1 to %c0 step %c1 iter_args(%a = %x) -> f32 {
    %3 = arith.addf %a, %x : f32
    scf.yield %3 : f32
  }
  %4 = arith.index_cast %i : i64 to index
  %5 = arith.index_cast %4 : index to i64
  return %0, %2, %5 : f32, f32, i64
}

// -----

#map = affine_map<(d0) -> (d0)>

// A chain of fills: each fill depends on the one before it.
// CHECK-LABEL: func.func @fills_in_a_chain
// CHECK: %[[SUM:.*]] = arith.constant 1.200000e+01 : f32
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-NEXT: linalg.yield %[[SUM]]
// CHECK-NOT: linalg.generic
func.func @fills_in_a_chain() -> tensor<2xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %empty = tensor.empty() : tensor<2xf32>
  %x0 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%empty : tensor<2xf32>) {
  ^bb0(%out: f32):
    linalg.yield %zero : f32
  } -> tensor<2xf32>
  %x1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x0 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x1 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x2 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x3 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x4 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x5 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x6 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x7 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x9 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x8 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x9 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x10 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  %x12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x11 : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %one : f32
    linalg.yield %sum : f32
  } -> tensor<2xf32>
  return %x12 : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @slices_without_elements
// CHECK: %[[EMPTY:.*]] = linalg.generic
// CHECK: %[[SLICE:.*]] = tensor.extract_slice {{.*}}[1, 0] [0, 3]
// CHECK: return %[[EMPTY]], %[[SLICE]]
func.func @slices_without_elements(%x: tensor<2x3xf32>) -> (tensor<0x3xf32>, tensor<0x3xf32>) {
  %c2 = arith.constant 2 : index
  %0 = tensor.extract_slice %x[%c2, 0] [0, 3] [1, 1] : tensor<2x3xf32> to tensor<0x3xf32>
  %1 = tensor.extract_slice %x[1, 0] [0, 3] [1, 1] : tensor<2x3xf32> to tensor<0x3xf32>
  return %0, %1 : tensor<0x3xf32>, tensor<0x3xf32>
}

// Constant padding becomes static; lowerings of TOSA produce such padding.
// CHECK-LABEL: func.func @padding
// CHECK: tensor.pad %arg0 low[1, %arg1] high[0, 2]
func.func @padding(%x: tensor<3x7xf32>, %n: index) -> tensor<4x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %cst = arith.constant 0.5 : f32
  %r = tensor.pad %x low[%c1, %n] high[%c0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %cst : f32
  } : tensor<3x7xf32> to tensor<4x?xf32>
  return %r : tensor<4x?xf32>
}

// -----

// (S3) Roundings to f6, f4 and f8 without infinities stay: LLVM has no value for a NaN there. Extensions are exact.
// CHECK-LABEL: func.func @S3_small
func.func @S3_small() -> (f4E2M1FN, f6E3M2FN, f32, f32, f64) {
  // CHECK-DAG: %[[HALF:.*]] = arith.constant -5.000000e-01 : f32
  // CHECK-DAG: %[[LEAST:.*]] = arith.constant 5.87747175E-39 : f32
  // CHECK-DAG: %[[NAN:.*]] = arith.constant 0x7FF8000000000000 : f64
  %nan = arith.constant 0x7FC00000 : f32
  %large = arith.constant 77 : i64
  // CHECK: arith.truncf %{{.*}} : f32 to f4E2M1FN
  %0 = arith.truncf %nan : f32 to f4E2M1FN
  // CHECK: arith.sitofp %{{.*}} : i64 to f6E3M2FN
  %1 = arith.sitofp %large : i64 to f6E3M2FN
  %a = arith.constant -0.5 : f4E2M1FN
  %b = arith.constant 0x00 : f8E8M0FNU
  %c = arith.constant 0xFF : f8E8M0FNU
  %2 = arith.extf %a : f4E2M1FN to f32
  %3 = arith.extf %b : f8E8M0FNU to f32
  %4 = arith.extf %c : f8E8M0FNU to f64
  // CHECK: return %{{.*}}, %{{.*}}, %[[HALF]], %[[LEAST]], %[[NAN]] : f4E2M1FN
  return %0, %1, %2, %3, %4 : f4E2M1FN, f6E3M2FN, f32, f32, f64
}
