// RUN: %repro-opt %s --verify-diagnostics --pass-pipeline='builtin.module(schedule,repro-map-partition{machine=tiny-2x2},repro-map-tile{machine=tiny-2x2})'
// A chunk of the row fits (T4).
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=tiny-2x2})' -o /dev/null
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#x = affine_map<(i, k) -> (i, k)>
#y = affine_map<(i, k) -> (i)>
func.func @main(%x: tensor<4x40000xf32> {repro.name = "x"}, %a: tensor<4xf32>) -> tensor<4xf32> attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{expected an operation whose smallest tile fits into the 65536 data bytes of a core of 'tiny-2x2': the tile needs 160448 bytes, of which 'x' of type 'memref<4x40000xf32>' takes 160000; use a machine of at least 160448 data bytes a core}}
  %y = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [#x, #y] iterators [parallel, reduction]
      ins(%x : tensor<4x40000xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%u: f32, %acc: f32):
    %r = arith.addf %acc, %u : f32
    repro.yield %r : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
