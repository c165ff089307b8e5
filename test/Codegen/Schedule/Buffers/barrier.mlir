// RUN: %repro-opt %s --pass-pipeline='builtin.module(func.func(cse),repro-bufferize)' | FileCheck %s

// (V5) Of two equal operations, one reads the operand of a barrier and the other its result: they are not merged. The
// barrier has no buffer of its own.

#id = affine_map<(i) -> (i)>

// CHECK: func.func @main(%[[X:.*]]: memref<8xf32>
// CHECK-NOT: memref.copy
// CHECK: linalg.generic {{.*}} ins(%[[X]] : memref<8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[X]] : memref<8xf32>)
// CHECK-NOT: repro.barrier
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %b = repro.barrier %x : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%b : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
