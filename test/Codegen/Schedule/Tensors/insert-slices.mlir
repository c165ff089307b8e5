// RUN: %repro-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(repro-insert-slices))' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: func.func @pad
// CHECK-NOT: tensor.pad
// CHECK: %[[C:.*]] = arith.constant dense<0.0
// CHECK: tensor.insert_slice %{{.*}} into %[[C]][1, 2] [2, 3] [1, 1]
func.func @pad(%x: tensor<2x3xf32>) -> tensor<4x6xf32> {
  %c = arith.constant 0.0 : f32
  %r = tensor.pad %x low[1, 2] high[1, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f32
  } : tensor<2x3xf32> to tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}

// -----

// CHECK-LABEL: func.func @concat
// CHECK: tensor.insert_slice %arg0 into %{{.*}}[0, 0] [2, 3] [1, 1]
// CHECK: tensor.insert_slice %arg1 into %{{.*}}[0, 3] [2, 2] [1, 1]
func.func @concat(%x: tensor<2x3xf32>, %y: tensor<2x2xf32>) -> tensor<2x5xf32> {
  %r = tensor.concat dim(1) %x, %y : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32>
  return %r : tensor<2x5xf32>
}

// -----

// (K2) Four stride phases: each phase is inserted at every second position of both
// dimensions of the whole tensor.

// CHECK-LABEL: func.func @phases
// CHECK-SAME: (%[[A:.*]]: tensor<5x6xf32>, %[[B:.*]]: tensor<5x6xf32>, %[[C:.*]]: tensor<5x6xf32>, %[[D:.*]]: tensor<5x6xf32>)
// CHECK: %[[E:.*]] = tensor.empty() : tensor<10x12xf32>
// CHECK: %[[R0:.*]] = tensor.insert_slice %[[A]] into %[[E]][0, 0] [5, 6] [2, 2]
// CHECK: %[[R1:.*]] = tensor.insert_slice %[[B]] into %[[R0]][0, 1] [5, 6] [2, 2]
// CHECK: %[[R2:.*]] = tensor.insert_slice %[[C]] into %[[R1]][1, 0] [5, 6] [2, 2]
// CHECK: %[[R3:.*]] = tensor.insert_slice %[[D]] into %[[R2]][1, 1] [5, 6] [2, 2]
// CHECK: return %[[R3]]
func.func @phases(%a: tensor<5x6xf32>, %b: tensor<5x6xf32>, %c: tensor<5x6xf32>, %d: tensor<5x6xf32>) -> tensor<10x12xf32> {
  %a1 = tensor.expand_shape %a [[0], [1, 2]] output_shape [5, 6, 1] : tensor<5x6xf32> into tensor<5x6x1xf32>
  %b1 = tensor.expand_shape %b [[0], [1, 2]] output_shape [5, 6, 1] : tensor<5x6xf32> into tensor<5x6x1xf32>
  %c1 = tensor.expand_shape %c [[0], [1, 2]] output_shape [5, 6, 1] : tensor<5x6xf32> into tensor<5x6x1xf32>
  %d1 = tensor.expand_shape %d [[0], [1, 2]] output_shape [5, 6, 1] : tensor<5x6xf32> into tensor<5x6x1xf32>
  %ab = tensor.concat dim(2) %a1, %b1 : (tensor<5x6x1xf32>, tensor<5x6x1xf32>) -> tensor<5x6x2xf32>
  %cd = tensor.concat dim(2) %c1, %d1 : (tensor<5x6x1xf32>, tensor<5x6x1xf32>) -> tensor<5x6x2xf32>
  %x = tensor.collapse_shape %ab [[0], [1, 2]] : tensor<5x6x2xf32> into tensor<5x12xf32>
  %y = tensor.collapse_shape %cd [[0], [1, 2]] : tensor<5x6x2xf32> into tensor<5x12xf32>
  %xy = tensor.concat dim(1) %x, %y : (tensor<5x12xf32>, tensor<5x12xf32>) -> tensor<5x24xf32>
  %e = tensor.expand_shape %xy [[0], [1, 2]] output_shape [5, 2, 12] : tensor<5x24xf32> into tensor<5x2x12xf32>
  %r = tensor.collapse_shape %e [[0, 1], [2]] : tensor<5x2x12xf32> into tensor<10x12xf32>
  return %r : tensor<10x12xf32>
}

// -----

// Equal elements that are half of the whole tensor fill it; inserting the same
// elements again adds nothing.

// CHECK-LABEL: func.func @fill
// CHECK: %[[C:.*]] = arith.constant dense<1.0{{.*}}> : tensor<8xf32>
// CHECK: %[[R:.*]] = tensor.insert_slice %{{.*}} into %[[C]][4] [2] [1]
// CHECK: return %[[R]]
func.func @fill(%x: tensor<2xf32>) -> tensor<8xf32> {
  %c = arith.constant dense<1.0> : tensor<4xf32>
  %d = arith.constant dense<1.0> : tensor<2xf32>
  %r = tensor.concat dim(0) %c, %x, %d : (tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// Zeros of the other sign are different elements, and an overwritten part no
// longer has the fill value.

// CHECK-LABEL: func.func @not_filled
// CHECK-DAG: %[[Z:.*]] = arith.constant dense<0.0{{.*}}> : tensor<4xf32>
// CHECK-DAG: %[[N:.*]] = arith.constant dense<-0.0{{.*}}> : tensor<2xf32>
// CHECK: %[[A:.*]] = tensor.insert_slice %[[N]] into %[[Z]][2] [2] [1]
// CHECK: tensor.insert_slice %{{.*}} into %[[A]][3] [1] [1]
func.func @not_filled() -> tensor<4xf32> {
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<-0.0> : tensor<2xf32>
  %p = arith.constant dense<0.0> : tensor<1xf32>
  %a = tensor.insert_slice %n into %z[2] [2] [1] : tensor<2xf32> into tensor<4xf32>
  %r = tensor.insert_slice %p into %a[3] [1] [1] : tensor<1xf32> into tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// A reshape that would split a part stays after the insertions.

// CHECK-LABEL: func.func @torn
// CHECK: tensor.insert_slice
// CHECK: tensor.insert_slice
// CHECK: tensor.expand_shape
func.func @torn(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3x2xf32> {
  %c = tensor.concat dim(0) %x, %y : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
  %r = tensor.expand_shape %c [[0, 1]] output_shape [3, 2] : tensor<6xf32> into tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// -----

// A tensor with other readers is not taken apart.

// CHECK-LABEL: func.func @two_users
// CHECK: %[[C:.*]] = tensor.insert_slice %arg1
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[C]]
// CHECK: return %[[C]], %[[R]]
func.func @two_users(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<4x3xf32>, tensor<12xf32>) {
  %c = tensor.concat dim(0) %x, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %r = tensor.collapse_shape %c [[0, 1]] : tensor<4x3xf32> into tensor<12xf32>
  return %c, %r : tensor<4x3xf32>, tensor<12xf32>
}

// -----

// (K2) Two of three phases contain only zeros, which are most of the whole tensor.

// CHECK-LABEL: func.func @thirds
// CHECK: %[[C:.*]] = arith.constant dense<0.0{{.*}}> : tensor<12xf32>
// CHECK: %[[R:.*]] = tensor.insert_slice %arg0 into %[[C]][1] [4] [3]
// CHECK-NEXT: return %[[R]]
func.func @thirds(%x: tensor<4xf32>) -> tensor<12xf32> {
  %z = arith.constant dense<0.0> : tensor<4x1xf32>
  %x1 = tensor.expand_shape %x [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32>
  %s = tensor.concat dim(1) %z, %x1, %z : (tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
  %r = tensor.collapse_shape %s [[0, 1]] : tensor<4x3xf32> into tensor<12xf32>
  return %r : tensor<12xf32>
}

// -----

// Padded parts: each part is inserted over its padding in the whole tensor.

// CHECK-LABEL: func.func @padded_parts
// CHECK-COUNT-6: tensor.insert_slice %{{.*}} into %{{.*}} : tensor<{{[34]}}xf32> into tensor<12xf32>
// CHECK-NOT: tensor.insert_slice
func.func @padded_parts(%x: tensor<3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>) -> tensor<12xf32> {
  %c = arith.constant 0.0 : f32
  %d = arith.constant 1.0 : f32
  %e = arith.constant 2.0 : f32
  %a = tensor.pad %x low[1] high[0] {
  ^bb0(%i: index):
    tensor.yield %c : f32
  } : tensor<3xf32> to tensor<4xf32>
  %b = tensor.pad %y low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %d : f32
  } : tensor<3xf32> to tensor<4xf32>
  %f = tensor.pad %z low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %e : f32
  } : tensor<3xf32> to tensor<4xf32>
  %r = tensor.concat dim(0) %a, %b, %f : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<12xf32>
  return %r : tensor<12xf32>
}

// -----

// An insertion into a tensor that is computed or has other readers does not move.

// CHECK-LABEL: func.func @others
// CHECK: %[[Y:.*]] = tensor.expand_shape %arg1
// CHECK: tensor.insert_slice %arg0 into %arg1[0, 1] [2, 1] [1, 1]
// CHECK: tensor.collapse_shape
func.func @others(%x: tensor<2xf32>, %y: tensor<2x4xf32>) -> (tensor<2x2x2xf32>, tensor<8xf32>) {
  %e = tensor.expand_shape %y [[0], [1, 2]] output_shape [2, 2, 2] : tensor<2x4xf32> into tensor<2x2x2xf32>
  %i = tensor.insert_slice %x into %y[0, 1] [2, 1] [1, 1] : tensor<2xf32> into tensor<2x4xf32>
  %r = tensor.collapse_shape %i [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
  return %e, %r : tensor<2x2x2xf32>, tensor<8xf32>
}

// -----

// A chain may have any length.

// CHECK-LABEL: func.func @many
// CHECK-NOT: tensor.expand_shape
// CHECK-COUNT-12: tensor.insert_slice %{{.*}} into %{{.*}} : tensor<2x3xf32> into tensor<2x36xf32>
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2]] output_shape [2, 12, 3]
func.func @many(%x0: tensor<2x3xf32>, %x1: tensor<2x3xf32>, %x2: tensor<2x3xf32>, %x3: tensor<2x3xf32>, %x4: tensor<2x3xf32>, %x5: tensor<2x3xf32>, %x6: tensor<2x3xf32>, %x7: tensor<2x3xf32>, %x8: tensor<2x3xf32>, %x9: tensor<2x3xf32>, %x10: tensor<2x3xf32>, %x11: tensor<2x3xf32>) -> tensor<2x12x3xf32> {
  %c = tensor.concat dim(1) %x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7, %x8, %x9, %x10, %x11 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x36xf32>
  %r = tensor.expand_shape %c [[0], [1, 2]] output_shape [2, 12, 3] : tensor<2x36xf32> into tensor<2x12x3xf32>
  return %r : tensor<2x12x3xf32>
}

// -----

// All parts have the same reshape, such as the gradients of queries, keys and
// values.

// CHECK-LABEL: func.func @collapsed_parts
// CHECK: %[[E:.*]] = tensor.empty() : tensor<2x5x9x4xf32>
// CHECK: %[[A:.*]] = tensor.insert_slice %arg0 into %[[E]][0, 0, 0, 0] [2, 5, 3, 4] [1, 1, 1, 1]
// CHECK: %[[B:.*]] = tensor.insert_slice %arg1 into %[[A]][0, 0, 3, 0] [2, 5, 6, 4] [1, 1, 1, 1]
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[B]] {{\[\[}}0, 1], [2, 3]]
// CHECK: return %[[R]]
func.func @collapsed_parts(%x: tensor<2x5x3x4xf32>, %y: tensor<2x5x6x4xf32>) -> tensor<10x36xf32> {
  %a = tensor.collapse_shape %x [[0, 1], [2, 3]] : tensor<2x5x3x4xf32> into tensor<10x12xf32>
  %b = tensor.collapse_shape %y [[0, 1], [2, 3]] : tensor<2x5x6x4xf32> into tensor<10x24xf32>
  %r = tensor.concat dim(1) %a, %b : (tensor<10x12xf32>, tensor<10x24xf32>) -> tensor<10x36xf32>
  return %r : tensor<10x36xf32>
}

// -----

// All parts have the same reshape, such as the blocks of attention (K5).

// CHECK-LABEL: func.func @expanded_parts
// CHECK: %[[E:.*]] = tensor.empty() : tensor<6x7x4xf32>
// CHECK: %[[A:.*]] = tensor.insert_slice %arg0 into %[[E]][0, 0, 0] [6, 5, 4] [1, 1, 1]
// CHECK: %[[B:.*]] = tensor.insert_slice %arg1 into %[[A]][0, 5, 0] [6, 2, 4] [1, 1, 1]
// CHECK: %[[R:.*]] = tensor.expand_shape %[[B]] {{\[\[}}0, 1], [2], [3]]
// CHECK: return %[[R]]
func.func @expanded_parts(%x: tensor<6x5x4xf32>, %y: tensor<6x2x4xf32>) -> tensor<2x3x7x4xf32> {
  %a = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [2, 3, 5, 4] : tensor<6x5x4xf32> into tensor<2x3x5x4xf32>
  %b = tensor.expand_shape %y [[0, 1], [2], [3]] output_shape [2, 3, 2, 4] : tensor<6x2x4xf32> into tensor<2x3x2x4xf32>
  %r = tensor.concat dim(2) %a, %b : (tensor<2x3x5x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x7x4xf32>
  return %r : tensor<2x3x7x4xf32>
}

// -----

// The widths of the parts have no common shape: nothing changes.

// CHECK-LABEL: func.func @parts_of_other_shapes
// CHECK: tensor.collapse_shape %arg0
// CHECK: tensor.collapse_shape %arg1
// CHECK: tensor.insert_slice
func.func @parts_of_other_shapes(%x: tensor<10x3x4xf32>, %y: tensor<10x4x6xf32>) -> tensor<10x36xf32> {
  %a = tensor.collapse_shape %x [[0], [1, 2]] : tensor<10x3x4xf32> into tensor<10x12xf32>
  %b = tensor.collapse_shape %y [[0], [1, 2]] : tensor<10x4x6xf32> into tensor<10x24xf32>
  %r = tensor.concat dim(1) %a, %b : (tensor<10x12xf32>, tensor<10x24xf32>) -> tensor<10x36xf32>
  return %r : tensor<10x36xf32>
}

// -----

// The part does not begin at a row of the inner dimension: nothing changes.

// CHECK-LABEL: func.func @parts_across_rows
// CHECK: tensor.collapse_shape %arg0
// CHECK: tensor.insert_slice
func.func @parts_across_rows(%x: tensor<10x3x4xf32>, %y: tensor<10x2xf32>) -> tensor<10x24xf32> {
  %a = tensor.collapse_shape %x [[0], [1, 2]] : tensor<10x3x4xf32> into tensor<10x12xf32>
  %e = tensor.empty() : tensor<10x24xf32>
  %r = tensor.insert_slice %a into %e[0, 2] [10, 12] [1, 1] : tensor<10x12xf32> into tensor<10x24xf32>
  return %r : tensor<10x24xf32>
}

// -----

// CHECK-LABEL: func.func @scalars
// CHECK-DAG: %[[A:.*]] = tensor.expand_shape %arg0 [] output_shape [1]
// CHECK-DAG: %[[B:.*]] = tensor.expand_shape %arg1 [] output_shape [1]
// CHECK: %[[R:.*]] = tensor.insert_slice %[[A]] into %{{.*}}[0] [1] [1]
// CHECK: tensor.insert_slice %[[B]] into %[[R]][1] [1] [1]
func.func @scalars(%x: tensor<f32>, %y: tensor<f32>) -> tensor<2xf32> {
  %a = tensor.expand_shape %x [] output_shape [1] : tensor<f32> into tensor<1xf32>
  %b = tensor.expand_shape %y [] output_shape [1] : tensor<f32> into tensor<1xf32>
  %r = tensor.concat dim(0) %a, %b : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
