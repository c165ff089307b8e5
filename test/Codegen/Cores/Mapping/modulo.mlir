// A tile that does not begin at 0 of a loop whose index is taken modulo 3: the map keeps the modulo, whose bounds are
// known.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=tiny-2x2})' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK: affine_map<(d0, d1) -> (d0, (d1 + {{[0-9]+}}) mod 3)>
// CHECK-NOT: floordiv

#x = affine_map<(k, j) -> (k, j mod 3)>
#y = affine_map<(k, j) -> (j)>

func.func @main(%x: tensor<16x3xf32>, %init: tensor<64xf32>) -> tensor<64xf32> attributes {repro.num_state = 0 : i64} {
  %y = repro.fold #repro.order<chunk = 8, lanes = 1, run = 1, totals = sequential> maps [#x, #y] iterators [reduction, parallel]
      ins(%x : tensor<16x3xf32>) outs(%init : tensor<64xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %s = arith.addf %sum, %a : f32
    repro.yield %s : f32
  } -> tensor<64xf32>
  return %y : tensor<64xf32>
}
