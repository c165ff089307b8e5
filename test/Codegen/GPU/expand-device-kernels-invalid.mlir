// RUN: %repro-opt %s --split-input-file --verify-diagnostics --repro-expand-device-kernels=arch=sm_90
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// expected-error @+1 {{expected a kernel function of one block}}
func.func private @two_blocks(%x: memref<4xf32> {launch.access = #launch<access read>}, %y: memref<4xf32> {launch.access = #launch<access write>}, %s: memref<?xi8>, %e: memref<1xi64>, %b: index, %n: index) {
  memref.copy %x, %y : memref<4xf32> to memref<4xf32>
  cf.br ^end
^end:
  return
}

launch.plan @main states(%s: memref<4xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<0xi8>) live 0 messages [] {
  launch.dispatch @two_blocks(%x, %s) : memref<4xf32>, memref<4xf32>
}

// -----

func.func private @E1_no_such_message(%x: memref<4xf32> {launch.access = #launch<access read>}, %y: memref<4xf32> {launch.access = #launch<access write>}, %s: memref<?xi8>, %e: memref<1xi64>, %b: index, %n: index) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%u: f32, %o: f32):
    %ok = arith.cmpf ord, %u, %u : f32
    // expected-error @+1 {{(E1) expected a number of the plan's 1 messages, got 1}}
    cf.assert %ok, "m" {launch.message = 1 : i64}
    linalg.yield %u : f32
  }
  return
}

launch.plan @main states(%s: memref<4xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<0xi8>) live 0 messages ["m"] {
  launch.dispatch @E1_no_such_message(%x, %s) : memref<4xf32>, memref<4xf32>
}

// -----

func.func private @external(memref<4xf32>, memref<4xf32>, memref<?xi8>, memref<1xi64>, index, index)

launch.plan @main states(%s: memref<4xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<0xi8>) live 0 messages ["m"] {
  // expected-error @+1 {{expected a kernel that is a private function with a body, got '@external'}}
  launch.dispatch @external(%x, %s) checked : memref<4xf32>, memref<4xf32>
}

// -----

// expected-error @+1 {{expected no symbol 'device' before there are kernels of a device}}
gpu.module @device {
}

launch.plan @main states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<0xi8>) live 0 messages [] {
}
