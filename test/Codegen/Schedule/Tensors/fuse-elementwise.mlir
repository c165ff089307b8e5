// RUN: %repro-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(repro-fuse-elementwise))' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#id = affine_map<(i, j) -> (i, j)>
#transposed = affine_map<(i, j) -> (j, i)>

// A chain becomes one operation.

// CHECK-LABEL: func.func @chain
// CHECK: linalg.generic
// CHECK: arith.mulf
// CHECK: repro.exp
// CHECK-NOT: linalg.generic
func.func @chain(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.mulf %a, %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = repro.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>

// A result that has another reader is also stored by the fused operation.

// CHECK-LABEL: func.func @two_results
// CHECK: %[[R:.*]]:2 = linalg.generic
// CHECK: return %[[R]]#{{[01]}}, %[[R]]#{{[01]}}
func.func @two_results(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = repro.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#transposed = affine_map<(i, j) -> (j, i)>

// A transpose becomes a map of the contraction that reads it.

// CHECK-DAG: #[[$NK:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-LABEL: func.func @transpose
// CHECK-NOT: linalg.generic
// CHECK: repro.fold
// CHECK-SAME: maps [#{{.*}}, #[[$NK]], #{{.*}}]
func.func @transpose(%x: tensor<4x16xf32>, %w: tensor<8x16xf32>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<16x8xf32>
  %t = linalg.generic {indexing_maps = [#transposed, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<8x16xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<16x8xf32>
  %r = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction]
      ins(%x, %t : tensor<4x16xf32>, tensor<16x8xf32>) outs(%c : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = math.fma %a, %b, %acc : f32
    repro.yield %0 : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>

// An expensive operation is not repeated for each use in a contraction.

// CHECK-LABEL: func.func @expensive
// CHECK: linalg.generic
// CHECK: repro.exp
// CHECK: repro.fold
// CHECK-NOT: repro.exp
func.func @expensive(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = repro.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<4x16xf32>
  %r = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction]
      ins(%t, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%c : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = math.fma %a, %b, %acc : f32
    repro.yield %0 : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>

// A fold of rows reads each element once: its only producer fuses, however expensive it is.

// CHECK-LABEL: func.func @row
// CHECK-NOT: linalg.generic
// CHECK: repro.fold
// CHECK: repro.exp
func.func @row(%x: tensor<4x16xf32>, %c: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = repro.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<4x16xf32>
  %r = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>] iterators [parallel, reduction]
      ins(%t : tensor<4x16xf32>) outs(%c : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    repro.yield %0 : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// (E1) An operation that only checks keeps a result; without one it would be removed.

// CHECK-LABEL: func.func @check
// CHECK: linalg.generic
// CHECK: cf.assert
func.func @check(%x: tensor<4xi64>) -> tensor<4xi64> {
  %e = tensor.empty() : tensor<4xi1>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xi64>) outs(%e : tensor<4xi1>) {
  ^bb0(%a: i64, %o: i1):
    %c0 = arith.constant 0 : i64
    %ok = arith.cmpi sge, %a, %c0 : i64
    cf.assert %ok, "negative"
    linalg.yield %ok : i1
  } -> tensor<4xi1>
  return %x : tensor<4xi64>
}

// A scalar with a user before the consumer is not fused: the fused operation
// would define the scalar too late.
// CHECK-LABEL: func @scalar_with_earlier_user
// CHECK: %[[P:.*]] = linalg.generic
// CHECK: tensor.expand_shape %[[P]]
// CHECK: linalg.generic
func.func @scalar_with_earlier_user(%x: tensor<f32>) -> (tensor<1xf32>, tensor<f32>) {
  %e = tensor.empty() : tensor<f32>
  %0 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%x : tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %b = repro.exp %a : f32
    %c = repro.sin %b : f32
    linalg.yield %c : f32
  } -> tensor<f32>
  %1 = tensor.expand_shape %0 [] output_shape [1] : tensor<f32> into tensor<1xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%0 : tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %b = repro.log %a : f32
    linalg.yield %b : f32
  } -> tensor<f32>
  return %1, %2 : tensor<1xf32>, tensor<f32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#transposed = affine_map<(i, j) -> (j, i)>
#left = affine_map<(i, j, k) -> (i, k)>
#right = affine_map<(i, j, k) -> (k, j)>
#out = affine_map<(i, j, k) -> (i, j)>

// A value and its transpose are stored once: the fold reads the transpose from the value's buffer.

// CHECK-LABEL: func.func @read_through
// CHECK: %[[E:.*]] = linalg.generic
// CHECK: repro.exp
// CHECK-NOT: linalg.generic
// CHECK: repro.fold
// CHECK-SAME: ins(%[[E]], %{{.*}} : tensor<4x8xf32>, tensor<4x4xf32>)
func.func @read_through(%x: tensor<4x8xf32>, %w: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>) {
  %z = arith.constant dense<0.0> : tensor<8x4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = repro.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %f = tensor.empty() : tensor<8x4xf32>
  %1 = linalg.generic {indexing_maps = [#transposed, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<4x8xf32>) outs(%f : tensor<8x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8x4xf32>
  %2 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#left, #right, #out]
      iterators [parallel, parallel, reduction] ins(%1, %w : tensor<8x4xf32>, tensor<4x4xf32>) outs(%z : tensor<8x4xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %r = math.fma %a, %b, %s : f32
    repro.yield %r : f32
  } -> tensor<8x4xf32>
  return %2, %0 : tensor<8x4xf32>, tensor<4x8xf32>
}

// -----

// (K2) The fold reads through a flip. An operand that is never read provides the
// extents that the fold's other operands do not have.

// CHECK-DAG: #[[$DOWN:.*]] = affine_map<(d0, d1, d2) -> (d2, -d1 + 2)>
// CHECK-DAG: #[[$SHAPE:.*]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-LABEL: func.func @flip
// CHECK-NOT: tensor.extract
// CHECK: %[[E:.*]] = tensor.empty() : tensor<3xf32>
// CHECK: repro.fold {{.*}} maps [#{{.*}}, #[[$DOWN]], #[[$SHAPE]], #{{.*}}]
// CHECK-SAME: ins(%arg0, %arg1, %[[E]] : tensor<6x5xf32>, tensor<5x3xf32>, tensor<3xf32>)
func.func @flip(%x: tensor<6x5xf32>, %w: tensor<5x3xf32>, %i: tensor<4xf32>) -> tensor<4xf32> {
  %c2 = arith.constant 2 : index
  %e = tensor.empty() : tensor<5x3xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<5x3xf32>) {
  ^bb0(%o: f32):
    %a = linalg.index 0 : index
    %b = linalg.index 1 : index
    %d = arith.subi %c2, %b : index
    %v = tensor.extract %w[%a, %d] : tensor<5x3xf32>
    linalg.yield %v : f32
  } -> tensor<5x3xf32>
  %r = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(h, y, c) -> (h + y, c)>, affine_map<(h, y, c) -> (c, y)>, affine_map<(h, y, c) -> (h)>]
      iterators [parallel, reduction, reduction] ins(%x, %f : tensor<6x5xf32>, tensor<5x3xf32>) outs(%i : tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32, %acc: f32):
    %s = math.fma %p, %q, %acc : f32
    repro.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// These stay gathers, because they do not cover the extents of a loop: a part of a
// larger tensor, a diagonal next to the main one, a position that may be outside.

// CHECK-LABEL: func.func @not_flips
// CHECK: tensor.extract
// CHECK: tensor.extract
// CHECK: tensor.extract
func.func @not_flips(%v: tensor<10xf32>, %w: tensor<3x4xf32>, %x: tensor<2xf32>) -> tensor<3xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %e = tensor.empty() : tensor<3xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<3xf32>) {
  ^bb0(%o: f32):
    %a = linalg.index 0 : index
    %b = arith.addi %a, %c1 : index
    %d = arith.subi %c2, %a : index
    %p = tensor.extract %v[%a] : tensor<10xf32>
    %q = tensor.extract %w[%a, %b] : tensor<3x4xf32>
    %r = tensor.extract %x[%d] : tensor<2xf32>
    %s = arith.addf %p, %q : f32
    %t = arith.addf %s, %r : f32
    linalg.yield %t : f32
  } -> tensor<3xf32>
  return %f : tensor<3xf32>
}

// -----

// (K4) An exact fold reads its factors from memory, in order.

// CHECK-LABEL: func.func @exact
// CHECK: %[[F:.*]] = linalg.generic
// CHECK: repro.fold #repro.exact<digits = 2>
// CHECK-SAME: ins(%arg0, %[[F]] : tensor<4x3xf32>, tensor<3xf32>)
func.func @exact(%x: tensor<4x3xf32>, %w: tensor<3xf32>, %i: tensor<4xf32>) -> tensor<4xf32> {
  %c2 = arith.constant 2 : index
  %e = tensor.empty() : tensor<3xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<3xf32>) {
  ^bb0(%o: f32):
    %a = linalg.index 0 : index
    %d = arith.subi %c2, %a : index
    %v = tensor.extract %w[%d] : tensor<3xf32>
    linalg.yield %v : f32
  } -> tensor<3xf32>
  %r = repro.fold #repro.exact<digits = 2>
      maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>]
      iterators [parallel, reduction] ins(%x, %f : tensor<4x3xf32>, tensor<3xf32>) outs(%i : tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32, %acc: f32):
    %s = math.fma %p, %q, %acc : f32
    repro.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// (M4) A fold with an accumulator of a matrix unit reads its factors from memory, too.

// CHECK-LABEL: func.func @accumulator
// CHECK: %[[F:.*]] = linalg.generic
// CHECK: repro.fold #repro.fdpa<terms = 4, fraction = 23, round = rz_f32, floor = -131>
// CHECK-SAME: ins(%arg0, %[[F]] : tensor<4x3xf32>, tensor<3xf32>)
func.func @accumulator(%x: tensor<4x3xf32>, %w: tensor<3xf32>, %i: tensor<4xf32>) -> tensor<4xf32> {
  %c2 = arith.constant 2 : index
  %e = tensor.empty() : tensor<3xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<3xf32>) {
  ^bb0(%o: f32):
    %a = linalg.index 0 : index
    %d = arith.subi %c2, %a : index
    %v = tensor.extract %w[%d] : tensor<3xf32>
    linalg.yield %v : f32
  } -> tensor<3xf32>
  %r = repro.fold #repro.fdpa<terms = 4, fraction = 23, round = rz_f32, floor = -131>
      maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>]
      iterators [parallel, reduction] ins(%x, %f : tensor<4x3xf32>, tensor<3xf32>) outs(%i : tensor<4xf32>) {
  ^bb0(%p: f32, %q: f32, %acc: f32):
    %s = math.fma %p, %q, %acc : f32
    repro.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// (A2) Interval analysis cannot prove the bounds of the composed map.

// CHECK-LABEL: func.func @bounds_of_a_composition
// CHECK: %[[V:.*]] = linalg.generic
// CHECK: repro.fold
// CHECK-SAME: ins(%[[V]], %{{.*}} : tensor<7xf32>, tensor<3xf32>)
func.func @bounds_of_a_composition(%x: tensor<4xf32>, %i: tensor<2xf32>) -> tensor<2xf32> {
  %e = tensor.empty() : tensor<7xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(d0) -> ((d0 floordiv 3) + d0 mod 2)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<7xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<7xf32>
  %f = tensor.empty() : tensor<2x3xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 * 3 + d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]} ins(%v : tensor<7xf32>) outs(%f : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x3xf32>
  %r = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>]
      iterators [parallel, reduction] ins(%w : tensor<2x3xf32>) outs(%i : tensor<2xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    repro.yield %s : f32
  } -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// An element that is extracted from a transposed tensor is extracted from its source.

// CHECK-LABEL: func.func @before_transposition
// CHECK-SAME: (%[[T:.*]]: tensor<3x5x7xf32>
// CHECK-NOT: tensor<7x3x5xf32>
// CHECK: ^bb0(%[[I:.*]]: index, %{{.*}}: f32):
// CHECK: tensor.extract %[[T]][%{{c2.*}}, %[[I]], %{{c1.*}}] : tensor<3x5x7xf32>
func.func @before_transposition(%t: tensor<3x5x7xf32>, %at: tensor<4xindex>) -> tensor<4xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %e = tensor.empty() : tensor<7x3x5xf32>
  %moved = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%t : tensor<3x5x7xf32>) outs(%e : tensor<7x3x5xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<7x3x5xf32>
  %o = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%at : tensor<4xindex>) outs(%o : tensor<4xf32>) {
  ^bb0(%i: index, %z: f32):
    %v = tensor.extract %moved[%c1, %c2, %i] : tensor<7x3x5xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// (V5) A barrier on a cheap value moves to the value's operands: the sum is not stored for the barrier.

// CHECK-LABEL: func.func @barrier_on_cheap
// CHECK: %[[FIRST:.*]] = linalg.generic {{.*}} ins(%arg0 :
// CHECK: arith.addf
// CHECK: repro.exp
// CHECK: %[[BARRIER:.*]] = repro.barrier %arg0
// CHECK: %[[SECOND:.*]] = linalg.generic {{.*}} ins(%[[BARRIER]] :
// CHECK: arith.addf
// CHECK: repro.exp
// CHECK: return %[[FIRST]], %[[SECOND]]
func.func @barrier_on_cheap(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %sum = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %first = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%sum : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = repro.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %again = repro.barrier %sum : tensor<8xf32>
  %second = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%again : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = repro.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %first, %second : tensor<8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#one = affine_map<(i, j) -> (0, 0)>

// A generic that reads its own output is not fused into a consumer that uses each
// element several times, because the output is read only once.

// CHECK-LABEL: func.func @reads_its_output
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK: arith.addf
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[SUM]] :
func.func @reads_its_output(%x: tensor<2x8xf32>, %y: tensor<1x1xf32>, %z: tensor<1x1xf32>) -> tensor<2x8xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<1x1xf32>) outs(%z : tensor<1x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<1x1xf32>
  %e = tensor.empty() : tensor<2x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #one, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %0 : tensor<2x8xf32>, tensor<1x1xf32>) outs(%e : tensor<2x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}
