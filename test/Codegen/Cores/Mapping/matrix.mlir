// (K4) An exact contraction: the array of a core adds the products of digits, in slices that cannot overflow.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=tiny-2x2 cuts=fit})' | FileCheck %s
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=tiny-2x2 cuts=fit},repro-expand-matrices)' | FileCheck %s --check-prefix=EXPANDED
// Wormhole's arrays add bf16 in an order that no one knows.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=wormhole-n150})' | FileCheck %s --check-prefix=FLOATS
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 600 products in two slices of 300, since 511 fit.
// CHECK: repro.fold #repro.any_order {{.*}} : memref<8x600xi8>, memref<8x600xi8>, memref<600x3xi8>, memref<600x3xi8>) outs({{.*}} : memref<8x3xi64>)
// CHECK-SAME: cores.matrix = #cores.matrix<rows = 4, columns = 4, slice = 300>

// EXPANDED: func.func private @repro_multiply_bytes(
// EXPANDED: scf.for %[[K:.*]] = %{{.*}} to %{{.*}} step %c300
// EXPANDED-COUNT-4: call @repro_multiply_bytes
// EXPANDED-NOT: cores.matrix

// FLOATS-NOT: cores.matrix
#id = affine_map<(i, j) -> (i, j)>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<8x600xf32>, %w: tensor<600x12xf32>) -> tensor<8x12xf32> attributes {repro.num_state = 0 : i64} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x12xf32>
  %z = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<8x12xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  } -> tensor<8x12xf32>
  %y = repro.fold #repro.exact<digits = 2> maps [#a, #b, #c] iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<8x600xf32>, tensor<600x12xf32>) outs(%z : tensor<8x12xf32>) {
  ^bb0(%u: f32, %v: f32, %acc: f32):
    %r = math.fma %u, %v, %acc : f32
    repro.yield %r : f32
  } -> tensor<8x12xf32>
  return %y : tensor<8x12xf32>
}
