// RUN: %repro-opt %s --split-input-file --pass-pipeline='builtin.module(repro-bufferize)' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#id = affine_map<(i, j) -> (i, j)>

// An addition to a part of a tensor is done in place, as for the gradient of the
// queries of attention by blocks (K5).

// CHECK-LABEL: func.func @add_to_part
// CHECK: %[[WHOLE:.*]] = memref.alloc() {{.*}} : memref<4x8xf32>
// CHECK: linalg.generic {{.*}} ins(%arg0 : {{.*}}) outs(%[[WHOLE]] :
// CHECK: %[[PART:.*]] = memref.subview %[[WHOLE]][2, 0] [2, 8] [1, 1]
// CHECK-NOT: memref.alloc
// CHECK-NOT: memref.copy %
// CHECK: linalg.generic {{.*}} ins(%[[PART]], %arg1 : {{.*}}) outs(%[[PART]] :
// CHECK: return %[[WHOLE]]
func.func @add_to_part(%x: tensor<4x8xf32>, %y: tensor<2x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %part = tensor.extract_slice %d[2, 0] [2, 8] [1, 1] : tensor<4x8xf32> to tensor<2x8xf32>
  %f = tensor.empty() : tensor<2x8xf32>
  %sum = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%part, %y : tensor<2x8xf32>, tensor<2x8xf32>) outs(%f : tensor<2x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x8xf32>
  %r = tensor.insert_slice %sum into %d[2, 0] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>

// If an element is read after its position has been overwritten, the old value
// is copied.

// CHECK-LABEL: func.func @add_turned_part
// CHECK: linalg.generic {{.*}} outs(%[[WHOLE:.*]] : memref<4x4xf32>)
// CHECK: %[[T:.*]] = memref.alloc() {{.*}} : memref<2x2xf32>
// CHECK: linalg.generic {{.*}} outs(%[[T]] :
// CHECK: memref.copy %[[T]], %
func.func @add_turned_part(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %part = tensor.extract_slice %d[0, 0] [2, 2] [1, 1] : tensor<4x4xf32> to tensor<2x2xf32>
  %f = tensor.empty() : tensor<2x2xf32>
  %sum = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%part : tensor<2x2xf32>) outs(%f : tensor<2x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x2xf32>
  %r = tensor.insert_slice %sum into %d[0, 0] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
