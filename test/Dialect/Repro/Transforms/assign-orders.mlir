// (P0) to (P3), (F5), (F6) The order depends only on iterators, maps and step.
// RUN: %repro-opt --repro-assign-orders %s | FileCheck %s

#ab = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1) -> (d0)>
#b = affine_map<(d0, d1) -> (d1)>
#none = affine_map<(d0, d1) -> ()>
#abc = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#c = affine_map<(d0, d1, d2) -> (d1)>
#mk = affine_map<(d0, d1, d2) -> (d0, d2)>
#kn = affine_map<(d0, d1, d2) -> (d2, d1)>
#mn = affine_map<(d0, d1, d2) -> (d0, d1)>
#v = affine_map<(d0) -> (d0)>
#s = affine_map<(d0) -> ()>

// CHECK: func.func @P1_product
func.func @P1_product(%x: tensor<4x8xf32>, %y: tensor<8x16xf32>, %o: tensor<4x16xf32>) -> tensor<4x16xf32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
  %0 = repro.fold maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %y : tensor<4x8xf32>, tensor<8x16xf32>) outs(%o : tensor<4x16xf32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %p = math.fma %e, %f, %acc : f32
    repro.yield %p : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// The factors of a product may be extended to the accumulator's type.
// CHECK: func.func @P1_bf16
func.func @P1_bf16(%x: tensor<4x8xbf16>, %y: tensor<8x16xbf16>, %o: tensor<4x16xbf16>) -> tensor<4x16xbf16> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
  %0 = repro.fold maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %y : tensor<4x8xbf16>, tensor<8x16xbf16>) outs(%o : tensor<4x16xbf16>) {
  ^bb0(%e: bf16, %f: bf16, %acc: f32):
    %g = arith.extf %e : bf16 to f32
    %h = arith.extf %f : bf16 to f32
    %p = math.fma %g, %h, %acc : f32
    repro.yield %p : f32
  } -> tensor<4x16xbf16>
  return %0 : tensor<4x16xbf16>
}

// (P2) No parallel dimension belongs to only one factor.
// CHECK: func.func @P1_dot
func.func @P1_dot(%x: tensor<8xf32>, %y: tensor<8xf32>, %o: tensor<f32>) -> tensor<f32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
  %0 = repro.fold maps [#v, #v, #s] iterators [reduction]
      ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %p = math.fma %e, %f, %acc : f32
    repro.yield %p : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK: func.func @P2_rows
func.func @P2_rows(%x: tensor<4x8xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
  %0 = repro.fold maps [#ab, #a] iterators [parallel, reduction]
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %p = arith.addf %e, %acc : f32
    repro.yield %p : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK: func.func @P2_columns
func.func @P2_columns(%x: tensor<4x8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
  %0 = repro.fold maps [#ab, #b] iterators [reduction, parallel]
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<8xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %p = arith.mulf %e, %acc : f32
    repro.yield %p : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// A sum of batch normalization reduces all but the middle dimension; only the last dimension is a run.
// CHECK: func.func @P2_suffix
func.func @P2_suffix(%x: tensor<4x8x6xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
  %0 = repro.fold maps [#abc, #c] iterators [reduction, parallel, reduction]
      ins(%x : tensor<4x8x6xf32>) outs(%o : tensor<8xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %p = arith.addf %e, %acc : f32
    repro.yield %p : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK: func.func @P2_all
func.func @P2_all(%x: tensor<4x8xf32>, %o: tensor<f32>) -> tensor<f32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 2, totals = refold>
  %0 = repro.fold maps [#ab, #none] iterators [reduction, reduction]
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %p = arith.addf %acc, %e : f32
    repro.yield %p : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// A window is reduced if its map expression uses a reduction dimension; the first operand is not read.
#image = affine_map<(d0, d1, d2, d3) -> (d0 * 2 + d2, d1 * 2 + d3)>
#window = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
#pooled = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
// CHECK: func.func @P2_pooling
func.func @P2_pooling(%w: tensor<2x2xf32>, %x: tensor<8x8xf32>, %o: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 2, totals = refold>
  %0 = repro.fold maps [#window, #image, #pooled] iterators [parallel, parallel, reduction, reduction]
      ins(%w, %x : tensor<2x2xf32>, tensor<8x8xf32>) outs(%o : tensor<4x4xf32>) {
  ^bb0(%u: f32, %e: f32, %acc: f32):
    %p = arith.addf %e, %acc : f32
    repro.yield %p : f32
  } -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// (P0) The order does not depend on the extents.
// CHECK: func.func @P0_unit
func.func @P0_unit(%x: tensor<1x1xf32>, %o: tensor<1xf32>) -> tensor<1xf32> {
  // CHECK-NEXT: repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
  %0 = repro.fold maps [#ab, #b] iterators [reduction, parallel]
      ins(%x : tensor<1x1xf32>) outs(%o : tensor<1xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %p = arith.addf %acc, %e : f32
    repro.yield %p : f32
  } -> tensor<1xf32>
  return %0 : tensor<1xf32>
}

// An existing order stays.
// CHECK: func.func @P0_kept
func.func @P0_kept(%x: tensor<4x8xf32>, %y: tensor<8x16xf32>, %o: tensor<4x16xf32>) -> tensor<4x16xf32> {
  // CHECK-NEXT: repro.fold #repro.exact<digits = 3>
  %0 = repro.fold #repro.exact<digits = 3> maps [#mk, #kn, #mn] iterators [parallel, parallel, reduction]
      ins(%x, %y : tensor<4x8xf32>, tensor<8x16xf32>) outs(%o : tensor<4x16xf32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %p = math.fma %e, %f, %acc : f32
    repro.yield %p : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// CHECK: func.func @P3_maximum
func.func @P3_maximum(%x: tensor<4x8xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: repro.fold #repro.any_order
  %0 = repro.fold maps [#ab, #a] iterators [parallel, reduction]
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %p = arith.maximumf %e, %acc : f32
    repro.yield %p : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK: func.func @P3_integers
func.func @P3_integers(%x: tensor<4x8xi32>, %o: tensor<8xi32>) -> tensor<8xi32> {
  // CHECK-NEXT: repro.fold #repro.any_order
  %0 = repro.fold maps [#ab, #b] iterators [reduction, parallel]
      ins(%x : tensor<4x8xi32>) outs(%o : tensor<8xi32>) {
  ^bb0(%e: i32, %acc: i32):
    %p = arith.addi %e, %acc : i32
    repro.yield %p : i32
  } -> tensor<8xi32>
  return %0 : tensor<8xi32>
}

// The body is not op(acc, f(inputs)), or it has several results.
// CHECK: func.func @F6_sequential
func.func @F6_sequential(%x: tensor<4x8xf32>, %o: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: repro.fold #repro.sequential
  %0 = repro.fold maps [#ab, #a] iterators [parallel, reduction]
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %p = arith.addf %e, %acc : f32
    %q = arith.mulf %p, %e : f32
    repro.yield %q : f32
  } -> tensor<4xf32>
  // CHECK: repro.fold #repro.sequential
  %1:2 = repro.fold maps [#ab, #a, #a] iterators [parallel, reduction]
      ins(%x : tensor<4x8xf32>) outs(%o, %o : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32, %most: f32):
    %p = arith.addf %e, %acc : f32
    %q = arith.maximumf %e, %most : f32
    repro.yield %p, %q : f32, f32
  } -> tensor<4xf32>, tensor<4xf32>
  return %0, %1#0, %1#1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
