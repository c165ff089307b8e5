// (K5) Attention and its gradient become folds of blocks, which have no order yet.
// RUN: %repro-opt --repro-decompose-attention --split-input-file %s | FileCheck %s

// Two blocks of queries: the first block has two keys; the second has three, the first of which need no mask.
// CHECK-DAG: #[[$WHOLE:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[$QUERY:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-DAG: #[[$X:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[$Y:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
// CHECK-DAG: #[[$YT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG: #[[$XY:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-LABEL: func @K5_causal
// CHECK-SAME: (%[[QUERIES:.*]]: tensor<1x4x8xf32>, %[[K:.*]]: tensor<1x3x8xf32>, %[[V:.*]]: tensor<1x3x6xf32>)
func.func @K5_causal(%q: tensor<1x4x8xf32>, %k: tensor<1x3x8xf32>, %v: tensor<1x3x6xf32>)
    -> (tensor<1x4x6xf32>, tensor<1x4xf32>, tensor<1x4xf32>) {
  // CHECK: %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
  // CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[QUERIES]] : tensor<1x4x8xf32>)
  // CHECK: arith.mulf %{{.*}}, %[[SCALE]] : f32
  // CHECK: %[[Q0:.*]] = tensor.extract_slice %[[Q]][0, 0, 0] [1, 2, 8] [1, 1, 1]
  // CHECK: %[[K0:.*]] = tensor.extract_slice %[[K]][0, 0, 0] [1, 2, 8] [1, 1, 1]
  // CHECK: %[[PRODUCTS:.*]] = repro.fold maps [#[[$X]], #[[$YT]], #[[$XY]]]
  // CHECK-SAME: iterators [parallel, parallel, parallel, reduction]
  // CHECK-SAME: ins(%[[Q0]], %[[K0]] : tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  // CHECK: math.fma
  // CHECK: %[[SCORES:.*]] = linalg.generic {{.*}} ins(%[[PRODUCTS]] : tensor<1x2x2xf32>)
  // CHECK: %[[ROW:.*]] = linalg.index 1
  // CHECK: %[[COLUMN:.*]] = linalg.index 2
  // CHECK: %[[OFFSET:.*]] = arith.constant 0 : index
  // CHECK: %[[LAST:.*]] = arith.addi %[[ROW]], %[[OFFSET]]
  // CHECK: %[[MET:.*]] = arith.cmpi sle, %[[COLUMN]], %[[LAST]]
  // CHECK: arith.select %[[MET]], %{{.*}}, %{{.*}} : f32
  // CHECK: %[[MAXIMUM:.*]] = repro.fold maps [#[[$WHOLE]], #[[$QUERY]]] iterators [parallel, parallel, reduction]
  // CHECK-SAME: ins(%[[SCORES]] : tensor<1x2x2xf32>)
  // CHECK: arith.maximumf
  // CHECK: %[[WEIGHTS:.*]] = linalg.generic {indexing_maps = [#[[$WHOLE]], #[[$QUERY]], #[[$WHOLE]]]
  // CHECK-SAME: ins(%[[SCORES]], %[[MAXIMUM]] : tensor<1x2x2xf32>, tensor<1x2xf32>)
  // CHECK: %[[DIFFERENCE:.*]] = arith.subf
  // CHECK: repro.exp %[[DIFFERENCE]]
  // CHECK: %[[TOTAL:.*]] = repro.fold maps [#[[$WHOLE]], #[[$QUERY]]] {{.*}} ins(%[[WEIGHTS]] : tensor<1x2x2xf32>)
  // CHECK: arith.addf
  // CHECK: %[[V0:.*]] = tensor.extract_slice %[[V]][0, 0, 0] [1, 2, 6] [1, 1, 1]
  // CHECK: %[[PRODUCT:.*]] = repro.fold maps [#[[$X]], #[[$Y]], #[[$XY]]] {{.*}} ins(%[[WEIGHTS]], %[[V0]] :
  // CHECK: %[[OUTPUT0:.*]] = linalg.generic {{.*}} ins(%[[PRODUCT]], %[[TOTAL]] : tensor<1x2x6xf32>, tensor<1x2xf32>)
  // CHECK: arith.divf
  // CHECK: %[[LOGARITHM0:.*]] = linalg.generic {{.*}} ins(%[[TOTAL]] : tensor<1x2xf32>)
  // CHECK: repro.log

  // CHECK: %[[Q1:.*]] = tensor.extract_slice %[[Q]][0, 2, 0] [1, 2, 8] [1, 1, 1]
  // CHECK-NOT: extract_slice
  // CHECK: repro.fold {{.*}} ins(%[[Q1]], %[[K]] : tensor<1x2x8xf32>, tensor<1x3x8xf32>)
  // CHECK-NOT: arith.cmpi
  // CHECK: %[[MAXIMUM1:.*]] = repro.fold {{.*}} tensor<1x2x3xf32>
  // CHECK: arith.maximumf
  // CHECK: repro.fold {{.*}} ins(%{{.*}}, %[[V]] : tensor<1x2x3xf32>, tensor<1x3x6xf32>)
  // CHECK: tensor.concat dim(1) %[[OUTPUT0]], %{{.*}} -> tensor<1x4x6xf32>
  // CHECK: tensor.concat dim(1) %[[MAXIMUM]], %[[MAXIMUM1]] : {{.*}} -> tensor<1x4xf32>
  // CHECK: tensor.concat dim(1) %[[LOGARITHM0]], %{{.*}} -> tensor<1x4xf32>
  %0:3 = repro.attention causal block = 2 scale = 0.125
      ins(%q, %k, %v : tensor<1x4x8xf32>, tensor<1x3x8xf32>, tensor<1x3x6xf32>)
      -> tensor<1x4x6xf32>, tensor<1x4xf32>, tensor<1x4xf32>
  return %0#0, %0#1, %0#2 : tensor<1x4x6xf32>, tensor<1x4xf32>, tensor<1x4xf32>
}

// -----

// Keys after the last query have gradients of zero.
// CHECK-DAG: #[[$WHOLE:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[$QUERY:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-DAG: #[[$X:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[$XT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>
// CHECK-DAG: #[[$Y:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
// CHECK-DAG: #[[$YT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG: #[[$XY:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-LABEL: func @K5_causal_gradient
// CHECK-SAME: (%[[QUERIES:.*]]: tensor<1x3x8xf32>, %[[K:.*]]: tensor<1x5x8xf32>, %[[V:.*]]: tensor<1x5x6xf32>
// CHECK-SAME: %[[DO:.*]]: tensor<1x3x6xf32>, %[[O:.*]]: tensor<1x3x6xf32>
// CHECK-SAME: %[[M:.*]]: tensor<1x3xf32>, %[[L:.*]]: tensor<1x3xf32>)
func.func @K5_causal_gradient(%q: tensor<1x3x8xf32>, %k: tensor<1x5x8xf32>, %v: tensor<1x5x6xf32>,
    %do: tensor<1x3x6xf32>, %o: tensor<1x3x6xf32>, %m: tensor<1x3xf32>, %l: tensor<1x3xf32>)
    -> (tensor<1x3x8xf32>, tensor<1x5x8xf32>, tensor<1x5x6xf32>) {
  // CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[QUERIES]] : tensor<1x3x8xf32>)
  // CHECK: %[[PRODUCTS:.*]] = linalg.generic {{.*}} ins(%[[DO]], %[[O]] :
  // CHECK: arith.mulf
  // CHECK: %[[D:.*]] = repro.fold maps [#[[$WHOLE]], #[[$QUERY]]] {{.*}} ins(%[[PRODUCTS]] :
  // CHECK: arith.addf

  // CHECK: %[[K0:.*]] = tensor.extract_slice %[[K]][0, 0, 0] [1, 2, 8] [1, 1, 1]
  // CHECK: repro.fold maps [#[[$X]], #[[$YT]], #[[$XY]]] {{.*}} ins(%[[Q]], %[[K0]] :
  // CHECK: %[[SCORES:.*]] = linalg.generic
  // CHECK: arith.cmpi sle
  // CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[SCORES]], %[[M]], %[[L]] : tensor<1x3x2xf32>,
  // CHECK: ^bb0(%[[S:.*]]: f32, %[[MAXIMUM:.*]]: f32, %[[LOGARITHM:.*]]: f32, %{{.*}}: f32):
  // CHECK: %[[SHIFTED:.*]] = arith.subf %[[S]], %[[MAXIMUM]]
  // CHECK: %[[EXPONENT:.*]] = arith.subf %[[SHIFTED]], %[[LOGARITHM]]
  // CHECK: repro.exp %[[EXPONENT]]
  // CHECK: %[[V0:.*]] = tensor.extract_slice %[[V]][0, 0, 0] [1, 2, 6] [1, 1, 1]
  // CHECK: %[[DP:.*]] = repro.fold maps [#[[$X]], #[[$YT]], #[[$XY]]] {{.*}} ins(%[[DO]], %[[V0]] :
  // CHECK: %[[DS:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[DP]], %[[D]] : tensor<1x3x2xf32>,
  // CHECK: ^bb0(%[[WEIGHT:.*]]: f32, %[[ABOVE:.*]]: f32, %[[SUM:.*]]: f32, %{{.*}}: f32):
  // CHECK: %[[DIFFERENCE:.*]] = arith.subf %[[ABOVE]], %[[SUM]]
  // CHECK: arith.mulf %[[WEIGHT]], %[[DIFFERENCE]]
  // CHECK: %[[DV0:.*]] = repro.fold maps [#[[$XT]], #[[$Y]], #[[$XY]]] {{.*}} ins(%[[P]], %[[DO]] :
  // CHECK: %[[DK0:.*]] = repro.fold maps [#[[$XT]], #[[$Y]], #[[$XY]]] {{.*}} ins(%[[DS]], %[[Q]] :
  // CHECK: %[[DQ0:.*]] = repro.fold maps [#[[$X]], #[[$Y]], #[[$XY]]] {{.*}} ins(%[[DS]], %{{.*}} :

  // CHECK: %[[DO1:.*]] = tensor.extract_slice %[[DO]][0, 2, 0] [1, 1, 6] [1, 1, 1]
  // CHECK: tensor.extract_slice %[[M]][0, 2] [1, 1] [1, 1]
  // CHECK: tensor.extract_slice %[[L]][0, 2] [1, 1] [1, 1]
  // CHECK: tensor.extract_slice %[[D]][0, 2] [1, 1] [1, 1]
  // CHECK: %[[DV1:.*]] = repro.fold maps [#[[$XT]], #[[$Y]], #[[$XY]]] {{.*}} ins(%{{.*}}, %[[DO1]] :
  // CHECK: %[[DK1:.*]] = repro.fold maps [#[[$XT]], #[[$Y]], #[[$XY]]]
  // CHECK: %[[DQ1:.*]] = repro.fold maps [#[[$X]], #[[$Y]], #[[$XY]]]
  // CHECK: %[[BEFORE:.*]] = tensor.extract_slice %[[DQ0]][0, 2, 0] [1, 1, 8] [1, 1, 1]
  // CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[BEFORE]], %[[DQ1]] :
  // CHECK: arith.addf
  // CHECK: %[[DQ:.*]] = tensor.insert_slice %[[SUM]] into %[[DQ0]][0, 2, 0] [1, 1, 8] [1, 1, 1]
  // CHECK: %[[DK2:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x2x8xf32>)
  // CHECK: %[[DV2:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x2x6xf32>)
  // CHECK: linalg.generic {{.*}} ins(%[[DQ]] : tensor<1x3x8xf32>)
  // CHECK: arith.mulf
  // CHECK: tensor.concat dim(1) %[[DK0]], %[[DK1]], %[[DK2]] : {{.*}} -> tensor<1x5x8xf32>
  // CHECK: tensor.concat dim(1) %[[DV0]], %[[DV1]], %[[DV2]] : {{.*}} -> tensor<1x5x6xf32>
  %0:3 = repro.attention_gradient causal block = 2 scale = 0.125
      ins(%q, %k, %v : tensor<1x3x8xf32>, tensor<1x5x8xf32>, tensor<1x5x6xf32>)
      gradient(%do : tensor<1x3x6xf32>)
      results(%o, %m, %l : tensor<1x3x6xf32>, tensor<1x3xf32>, tensor<1x3xf32>)
      -> tensor<1x3x8xf32>, tensor<1x5x8xf32>, tensor<1x5x6xf32>
  return %0#0, %0#1, %0#2 : tensor<1x3x8xf32>, tensor<1x5x8xf32>, tensor<1x5x6xf32>
}

// -----

// For a query without keys, the maximum is 0 and the sum is 1.
// CHECK-LABEL: func @K5_mask
// CHECK-SAME: %[[MASK:[^:]*]]: tensor<2x3x4xi1>
func.func @K5_mask(%q: tensor<2x3x8xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x4x6xf32>, %mask: tensor<2x3x4xi1>)
    -> tensor<2x3x6xf32> {
  // CHECK: %[[PRODUCTS:.*]] = repro.fold
  // CHECK: %[[NONE:.*]] = arith.constant 0xFF800000 : f32
  // CHECK: linalg.generic {{.*}} ins(%[[PRODUCTS]], %[[MASK]] : tensor<2x3x4xf32>, tensor<2x3x4xi1>)
  // CHECK: ^bb0(%[[S:.*]]: f32, %[[MET:.*]]: i1,
  // CHECK: arith.select %[[MET]], %[[S]], %[[NONE]]
  // CHECK: arith.maximumf
  // CHECK: %[[FROM:.*]] = arith.constant 0xFF800000 : f32
  // CHECK: %[[TO:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK: ^bb0(%[[M:.*]]: f32, %{{.*}}: f32):
  // CHECK: %[[IS_NONE:.*]] = arith.cmpf oeq, %[[M]], %[[FROM]]
  // CHECK: arith.select %[[IS_NONE]], %[[TO]], %[[M]]
  // CHECK: repro.exp
  // CHECK: arith.addf
  // CHECK: %[[FROM:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK: %[[TO:.*]] = arith.constant 1.000000e+00 : f32
  // CHECK: arith.cmpf oeq, %{{.*}}, %[[FROM]]
  // CHECK: arith.select %{{.*}}, %[[TO]], %{{.*}}
  // CHECK-NOT: tensor.concat
  %0:3 = repro.attention block = 4 scale = 1.0 mask(%mask : tensor<2x3x4xi1>)
      ins(%q, %k, %v : tensor<2x3x8xf32>, tensor<2x4x8xf32>, tensor<2x4x6xf32>)
      -> tensor<2x3x6xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  return %0#0 : tensor<2x3x6xf32>
}

// -----

// The gradient of a mask of numbers is the gradient of the scores.
// CHECK-LABEL: func @K5_mask_of_numbers
// CHECK-SAME: %[[MASK:[^:]*]]: tensor<1x3x4xf32>
func.func @K5_mask_of_numbers(%q: tensor<1x3x8xf32>, %k: tensor<1x4x8xf32>, %v: tensor<1x4x6xf32>,
    %mask: tensor<1x3x4xf32>, %do: tensor<1x3x6xf32>, %m: tensor<1x3xf32>) -> tensor<1x3x4xf32> {
  // CHECK: arith.addf
  // CHECK: %[[PRODUCTS:.*]] = repro.fold
  // CHECK: %[[PART:.*]] = tensor.extract_slice %[[MASK]][0, 0, 0] [1, 3, 2] [1, 1, 1]
  // CHECK: linalg.generic {{.*}} ins(%[[PRODUCTS]], %[[PART]] : tensor<1x3x2xf32>, tensor<1x3x2xf32>)
  // CHECK: arith.addf
  // CHECK: repro.exp
  // CHECK: math.fma
  // CHECK: %[[DS0:.*]] = linalg.generic {{.*}} ins(
  // CHECK: tensor.extract_slice %[[MASK]][0, 0, 2] [1, 3, 2] [1, 1, 1]
  // CHECK: repro.exp
  // CHECK: math.fma
  // CHECK: %[[DS1:.*]] = linalg.generic {{.*}} ins(
  // CHECK: %[[DMASK:.*]] = tensor.concat dim(2) %[[DS0]], %[[DS1]] : {{.*}} -> tensor<1x3x4xf32>
  // CHECK: return %[[DMASK]]
  %0:4 = repro.attention_gradient block = 2 scale = 1.0 mask(%mask : tensor<1x3x4xf32>)
      ins(%q, %k, %v : tensor<1x3x8xf32>, tensor<1x4x8xf32>, tensor<1x4x6xf32>)
      gradient(%do : tensor<1x3x6xf32>) results(%do, %m, %m : tensor<1x3x6xf32>, tensor<1x3xf32>, tensor<1x3xf32>)
      -> tensor<1x3x8xf32>, tensor<1x4x8xf32>, tensor<1x4x6xf32>, tensor<1x3x4xf32>
  return %0#3 : tensor<1x3x4xf32>
}

// -----

// The random numbers of dropout are drawn once; the sum of the weights is computed before dropout.
// CHECK-LABEL: func @K5_dropout
// CHECK-SAME: %[[SEED:[^:]*]]: i64, %[[STEP:[^:]*]]: i64
func.func @K5_dropout(%q: tensor<1x4x8xf32>, %k: tensor<1x3x8xf32>, %v: tensor<1x3x6xf32>, %seed: i64, %step: i64)
    -> tensor<1x4x6xf32> {
  // CHECK: %[[KEPT:.*]] = repro.random bernoulli probability = 7.500000e-01 site = 3
  // CHECK-SAME: ins(%[[SEED]], %[[STEP]] : i64, i64) {{.*}} -> tensor<1x4x3xi1>
  // CHECK: %[[FACTOR:.*]] = arith.constant 1.33333337 : f32
  // CHECK: arith.maximumf
  // CHECK: %[[WEIGHTS:.*]] = linalg.generic
  // CHECK: repro.exp
  // CHECK: repro.fold {{.*}} ins(%[[WEIGHTS]] : tensor<1x2x3xf32>)
  // CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK: %[[PART:.*]] = tensor.extract_slice %[[KEPT]][0, 0, 0] [1, 2, 3] [1, 1, 1]
  // CHECK: %[[LEFT:.*]] = linalg.generic {{.*}} ins(%[[WEIGHTS]], %[[PART]] : tensor<1x2x3xf32>, tensor<1x2x3xi1>)
  // CHECK: ^bb0(%[[P:.*]]: f32, %[[IS_KEPT:.*]]: i1,
  // CHECK: %[[PRODUCT:.*]] = arith.mulf %[[P]], %[[FACTOR]]
  // CHECK: arith.select %[[IS_KEPT]], %[[PRODUCT]], %[[ZERO]]
  // CHECK: repro.fold {{.*}} ins(%[[LEFT]], %{{.*}} : tensor<1x2x3xf32>, tensor<1x3x6xf32>)
  // CHECK-NOT: repro.random
  %0:3 = repro.attention block = 2 scale = 1.0 dropout rate = 0.25 site = 3 (%seed, %step : i64, i64)
      ins(%q, %k, %v : tensor<1x4x8xf32>, tensor<1x3x8xf32>, tensor<1x3x6xf32>)
      -> tensor<1x4x6xf32>, tensor<1x4xf32>, tensor<1x4xf32>
  return %0#0 : tensor<1x4x6xf32>
}

// -----

// A rate of 1 drops all weights without a division by 0.
// CHECK-LABEL: func @K5_dropout_of_all
func.func @K5_dropout_of_all(%q: tensor<1x4x8xf32>, %seed: i64, %step: i64) -> tensor<1x4x8xf32> {
  // CHECK: repro.random bernoulli probability = 0.000000e+00
  // CHECK: %[[FACTOR:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK: arith.mulf %{{.*}}, %[[FACTOR]]
  %0:3 = repro.attention block = 4 scale = 1.0 dropout rate = 1.0 site = 0 (%seed, %step : i64, i64)
      ins(%q, %q, %q : tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>)
      -> tensor<1x4x8xf32>, tensor<1x4xf32>, tensor<1x4xf32>
  return %0#0 : tensor<1x4x8xf32>
}

// -----

// Items 0 to 2 share the first key, items 3 to 5 the second; each item has a value of its own.
// CHECK-DAG: #[[$SHARED:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG: #[[$ALL:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CHECK-LABEL: func @K5_shared
// CHECK-SAME: %[[K:[^:]*]]: tensor<2x4x8xf32>, %[[V:[^:]*]]: tensor<6x4x5xf32>
func.func @K5_shared(%q: tensor<6x3x8xf32>, %k: tensor<2x4x8xf32>, %v: tensor<6x4x5xf32>, %do: tensor<6x3x5xf32>,
    %m: tensor<6x3xf32>) -> (tensor<2x4x8xf32>, tensor<6x4x5xf32>) {
  // CHECK: %[[GROUPS:.*]] = linalg.generic {indexing_maps = [#[[$SHARED]], #[[$ALL]]]
  // CHECK-SAME: ins(%[[K]] : tensor<2x4x8xf32>) outs(%{{.*}} : tensor<2x3x4x8xf32>)
  // CHECK: %[[KEYS:.*]] = tensor.collapse_shape %[[GROUPS]] {{\[\[}}0, 1], [2], [3]]
  // CHECK: repro.fold {{.*}} ins(%{{.*}}, %[[KEYS]] :
  // CHECK: repro.fold {{.*}} ins(%{{.*}}, %[[V]] :
  // CHECK: %[[DV:.*]] = repro.fold {{.*}} outs(%{{.*}} : tensor<6x4x5xf32>)
  // CHECK: %[[DK:.*]] = repro.fold {{.*}} outs(%{{.*}} : tensor<6x4x8xf32>)
  // CHECK: %[[GRADIENTS:.*]] = tensor.expand_shape %[[DK]] {{\[\[}}0, 1], [2], [3]]
  // CHECK: %[[SUM:.*]] = repro.fold maps [#[[$ALL]], #[[$SHARED]]] iterators [parallel, reduction, parallel, parallel]
  // CHECK-SAME: ins(%[[GRADIENTS]] : tensor<2x3x4x8xf32>)
  // CHECK: arith.addf
  // CHECK: return %[[SUM]], %[[DV]]
  %0:3 = repro.attention_gradient block = 4 scale = 1.0
      ins(%q, %k, %v : tensor<6x3x8xf32>, tensor<2x4x8xf32>, tensor<6x4x5xf32>)
      gradient(%do : tensor<6x3x5xf32>) results(%do, %m, %m : tensor<6x3x5xf32>, tensor<6x3xf32>, tensor<6x3xf32>)
      -> tensor<6x3x8xf32>, tensor<2x4x8xf32>, tensor<6x4x5xf32>
  return %0#1, %0#2 : tensor<2x4x8xf32>, tensor<6x4x5xf32>
}
