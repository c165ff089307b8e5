// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: %repro-opt %s --schedule --repro-expand-device-kernels=arch=sm_90 | FileCheck %s --check-prefix=SM90
// RUN: %repro-opt %s --schedule --repro-expand-device-kernels=arch=sm_100 | FileCheck %s --check-prefix=SM100
// RUN: %repro-opt %s --schedule --repro-expand-device-kernels=arch=%S/Inputs/small-card.json | FileCheck %s --check-prefix=SMALL

// A GPU with few multiprocessors is fully used without a block for each chunk.
// SM90: gpu.func @kernel_1(
// SM90-SAME: launch.tiles = ["blocks of 64 x 64 results and 16 of K, threads of 8 x 4, 3 x 2 blocks for each of 3 chunks"]
// SM100: gpu.func @kernel_1(
// SM100-SAME: launch.tiles = ["blocks of 64 x 64 results and 16 of K, threads of 8 x 4, 3 x 2 blocks for each of 3 chunks, fmas of 4 lanes"]
// SMALL: gpu.func @kernel_1(
// SMALL-SAME: launch.tiles = ["blocks of 64 x 64 results and 16 of K, threads of 8 x 4, 3 x 2 blocks"]
func.func @main(%a: tensor<130x1100xf32>, %b: tensor<1100x70xf32>, %c: tensor<130x70xf32>) -> tensor<130x70xf32> attributes {repro.num_state = 0 : i64} {
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] iterators [parallel, parallel, reduction] ins(%a, %b : tensor<130x1100xf32>, tensor<1100x70xf32>) outs(%c : tensor<130x70xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %r = math.fma %x, %y, %acc : f32
    repro.yield %r : f32
  } -> tensor<130x70xf32>
  return %0 : tensor<130x70xf32>
}
