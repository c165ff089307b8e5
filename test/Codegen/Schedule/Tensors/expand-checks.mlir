// RUN: %repro-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(repro-expand-checks))' | FileCheck %s
// RUN: %repro-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(repro-expand-checks,repro-canonicalize))' | FileCheck %s --check-prefix=FOLDED
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// (E1) The check of an index becomes an assertion, which stays even if the element is unused.

// CHECK-LABEL: func.func @index
// CHECK: %[[OK:.*]] = arith.cmpi ult, %[[I:.*]], %{{.*}} : index
// CHECK: %[[SAFE:.*]] = arith.select %[[OK]], %[[I]], %{{.*}} : index
// CHECK: cf.assert %[[OK]], "index out of range for a tensor of shape [5]"
// CHECK: tensor.extract %{{.*}}[%[[SAFE]]] : tensor<5xf32>
// FOLDED-LABEL: func.func @index
// FOLDED: linalg.generic
// FOLDED: cf.assert
// FOLDED-NOT: tensor.extract
func.func @index(%t: tensor<5xf32>, %x: tensor<4xindex>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xindex>) outs(%y : tensor<4xf32>) {
  ^bb0(%i: index, %o: f32):
    %v = tensor.extract %t[%i] : tensor<5xf32>
    %no = arith.constant false
    %r = arith.select %no, %v, %o : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Interval analysis proves that these accesses are in range: no check is needed, and both maps stay affine.

// FOLDED-LABEL: func.func @affine
// FOLDED-NOT: cf.assert
// FOLDED-NOT: arith.select
// FOLDED: return
func.func @affine(%t: tensor<5x7xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%y : tensor<4x3xf32>) {
  ^bb0(%o: f32):
    %last = arith.constant 3 : index
    %two = arith.constant 2 : index
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.subi %last, %i : index
    %twice = arith.muli %j, %two : index
    %column = arith.addi %twice, %two : index
    %v = tensor.extract %t[%row, %column] : tensor<5x7xf32>
    linalg.yield %v : f32
  } -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// An index that may wrap around, or exceed the extent by one, is checked.

// FOLDED-LABEL: func.func @beyond
// FOLDED-COUNT-2: cf.assert
func.func @beyond(%t: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%y : tensor<4xf32>) {
  ^bb0(%o: f32):
    %most = arith.constant 9223372036854775807 : index
    %i = linalg.index 0 : index
    %1 = arith.addi %i, %most : index
    %2 = arith.addi %1, %most : index
    %v = tensor.extract %t[%2] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%y : tensor<4xf32>) {
  ^bb0(%o: f32):
    %one = arith.constant 1 : index
    %i = linalg.index 0 : index
    %4 = arith.addi %i, %one : index
    %v = tensor.extract %t[%4] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %0, %3 : tensor<4xf32>, tensor<4xf32>
}

// -----

// All sites share one check of the step; an extraction without indices has no check.

// CHECK-LABEL: func.func @step
// CHECK-COUNT-1: cf.assert %{{.*}}, "the step of a random number is out of range, expected 0 to 4294967295"
// CHECK-NOT: cf.assert
// CHECK: return
func.func @step(%seed: tensor<i64>, %step: tensor<i64>) -> tensor<4xf32> {
  %s = tensor.extract %seed[] : tensor<i64>
  %n = tensor.extract %step[] : tensor<i64>
  %e = tensor.empty() : tensor<4xf32>
  %u = repro.random uniform site = 3 ins(%s, %n : i64, i64) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %v = repro.random uniform site = 4 ins(%s, %n : i64, i64) outs(%u : tensor<4xf32>) -> tensor<4xf32>
  return %v : tensor<4xf32>
}

// -----

// The indices of a scatter are checked before it. Scatters with the same indices
// share one check if the indexed dimensions of their tensors are equal.

// CHECK-LABEL: func.func @scatters
// CHECK: %[[OUT:.*]] = tensor.empty() : tensor<2x2xi1>
// CHECK: linalg.generic {{.*}} ins(%[[AT:.*]] : tensor<2x2xi32>) outs(%[[OUT]] : tensor<2x2xi1>)
// CHECK: %[[I:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK: %[[D:.*]] = linalg.index 1 : index
// CHECK: %[[OF_1:.*]] = arith.select %{{.*}}, %c5, %c4 : index
// CHECK: %[[OK:.*]] = arith.cmpi ult, %[[I]], %[[OF_1]] : index
// CHECK: cf.assert %[[OK]], "scatter index out of range for a tensor of shape [4, 5, 3]"
// CHECK: repro.scatter
// CHECK-NOT: cf.assert
// CHECK: repro.scatter
// CHECK-NOT: cf.assert
// CHECK: repro.scatter
// CHECK: cf.assert %{{.*}}, "scatter index out of range for a tensor of shape [9, 9, 3]"
// CHECK: repro.scatter
func.func @scatters(%u: tensor<2x3xf32>, %v: tensor<2xi8>, %at: tensor<2x2xi32>, %a: tensor<4x5x3xf32>,
    %b: tensor<9x9x3xf32>, %c: tensor<4x5xi8>) -> (tensor<4x5x3xf32>, tensor<9x9x3xf32>, tensor<4x5xi8>) {
  %0 = repro.scatter add ins(%u, %at : tensor<2x3xf32>, tensor<2x2xi32>) outs(%a : tensor<4x5x3xf32>) -> tensor<4x5x3xf32>
  %1 = repro.scatter replace ins(%u, %at : tensor<2x3xf32>, tensor<2x2xi32>) outs(%0 : tensor<4x5x3xf32>) -> tensor<4x5x3xf32>
  %3 = repro.scatter replace ins(%v, %at : tensor<2xi8>, tensor<2x2xi32>) outs(%c : tensor<4x5xi8>) -> tensor<4x5xi8>
  %2 = repro.scatter add ins(%u, %at : tensor<2x3xf32>, tensor<2x2xi32>) outs(%b : tensor<9x9x3xf32>) -> tensor<9x9x3xf32>
  return %1, %2, %3 : tensor<4x5x3xf32>, tensor<9x9x3xf32>, tensor<4x5xi8>
}

// -----

// There is no element to read and no result to keep.

// FOLDED-LABEL: func.func @nothing
// FOLDED: cf.assert %{{.*}}, "index out of range for a tensor of shape [0]"
// FOLDED: cf.assert %{{.*}}, "scatter index out of range for a tensor of shape [4]"
// FOLDED: repro.scatter
func.func @nothing(%t: tensor<0xf32>, %i: index, %u: tensor<2xf32>, %at: tensor<2x1xi64>, %o: tensor<4xf32>) {
  %v = tensor.extract %t[%i] : tensor<0xf32>
  %0 = repro.scatter add ins(%u, %at : tensor<2xf32>, tensor<2x1xi64>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
  return
}
