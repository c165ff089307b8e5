// RUN: %repro-opt %s --repro-number-checks | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#id = affine_map<(i) -> (i)>

// (E1) Messages of checks contain the location.

// CHECK: module attributes {launch.messages = ["no good", "model.py:7: nor that", "loss function: no good"]}
// CHECK: cf.assert %{{.*}}, "no good" {launch.message = 0 : i64}
// CHECK: cf.assert %{{.*}}, "nor that" {launch.message = 1 : i64}
// CHECK: cf.assert %{{.*}}, "no good" {launch.message = 0 : i64}
// CHECK: cf.assert %{{.*}}, "no good" {launch.message = 2 : i64}
func.func @main(%x: memref<4xindex>, %t: memref<5xf32>) -> memref<4xf32> {
  %a = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<4xindex>) outs(%a : memref<4xf32>) {
  ^bb0(%u: index, %o: f32):
    %r = memref.load %t[%u] : memref<5xf32>
    %ok = arith.cmpf ord, %r, %r : f32
    cf.assert %ok, "no good" loc(unknown)
    cf.assert %ok, "nor that" loc("model.py":7:3)
    cf.assert %ok, "no good" loc(unknown)
    cf.assert %ok, "no good" loc("loss function")
    linalg.yield %r : f32
  }
  return %a : memref<4xf32>
}
