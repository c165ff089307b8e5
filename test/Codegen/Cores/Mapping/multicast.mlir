// Multicasts: cores that read equal boxes take turns to copy a box from the DRAM and to send it to the others.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(schedule,repro-map-split,repro-map-matrix{machine=tiny-2x2},repro-map-partition{machine=tiny-2x2},repro-map-tile{machine=tiny-2x2},repro-map-place{machine=tiny-2x2})' -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir --check-prefix=CHOICE
// RUN: sed 's/array<i64: 0>, cores.partition = array<i64: 1, 4>/array<i64: 0, 1>, cores.partition = array<i64: 2, 2>/; s/4, 3>/4, 2>/' %t.mlir > %t.grid.mlir
// RUN: %repro-opt %t.mlir --repro-map-schedule=machine=tiny-2x2 -o %t.plan.mlir
// RUN: %repro-opt %t.plan.mlir --pass-pipeline='builtin.module(repro-verify-cores,repro-verify-core-mapping)' | FileCheck %s
// The verifications find a sender that does not wait for the others, a core that does not wait for its rows, rows for
// another slot, and rows for a part of the cores.
// RUN: %repro-opt %t.grid.mlir --repro-map-schedule=machine=tiny-2x2 | sed '/cores.acquire 7 count 1/d' | not %repro-opt --repro-verify-cores 2>&1 | FileCheck %s --check-prefix=RACE
// RUN: sed '/cores.acquire 5 count 1/d' %t.plan.mlir | not %repro-opt --repro-verify-cores 2>&1 | FileCheck %s --check-prefix=RACE
// RUN: sed 's/at 0 counter 5/at 256 counter 5/' %t.plan.mlir | not %repro-opt --repro-verify-cores 2>&1 | FileCheck %s --check-prefix=RACE
// RUN: sed 's/to \[\[0, 0\], \[1, 1\], \[0, 1\]\] at 0/to [[0, 0], [1, 1]] at 0/' %t.plan.mlir | not %repro-opt --repro-verify-cores 2>&1 | FileCheck %s --check-prefix=DEADLOCK
// The rows of another tile arrive.
// RUN: sed 's/cores.copy %3 to/cores.copy %8 to/' %t.plan.mlir | not %repro-opt --pass-pipeline='builtin.module(repro-verify-cores,repro-verify-core-mapping)' 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: %repro-opt %t.grid.mlir --pass-pipeline='builtin.module(repro-map-schedule{machine=tiny-2x2},repro-verify-cores,repro-verify-core-mapping)' | FileCheck %s --check-prefix=GRID
// RUN: sed 's/cores.multicast = array<i64: 0>/cores.multicast = array<i64: 0, 2>/' %t.mlir > %t.written.mlir
// RUN: not %repro-opt %t.written.mlir --repro-map-schedule=machine=tiny-2x2 2>&1 | FileCheck %s --check-prefix=WRITTEN
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHOICE: launch.dispatch @kernel_0({{.*}}) {cores.multicast = array<i64: 0>, cores.partition = array<i64: 1, 4>, cores.place = array<i64: 0, 1, 3, 2>, cores.tile = array<i64: 4, 3>}

// All four cores need the rows of X. Core (1, 0) reads the first tile's rows, and core (1, 1) those of the second tile.
// CHECK: %[[X0:.*]] = launch.view %arg0[0] : memref<8x16xf32> to memref<4x16xf32>
// CHECK: %[[X1:.*]] = launch.view %arg0[256] : memref<8x16xf32> to memref<4x16xf32>
// A core says that its slots are free, and waits for the rows before it runs a tile.
// CHECK: cores.program at [0, 0]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: cores.release 2 to {{\[\[}}1, 0]]
// CHECK: cores.copy {{.*}} memref<16x3xf32, strided<[12, 1]>> to
// CHECK-NEXT: cores.release 3 to {{\[\[}}1, 1]]
// CHECK: cores.acquire 5 count 1
// CHECK: cores.run @tile_0
// CHECK: cores.acquire 6 count 1
// CHECK: cores.run @tile_0
// The reader waits for the slots of all others, and for its send before the program ends.
// CHECK: cores.program at [1, 0]
// CHECK: %[[L0:.*]] = launch.view %{{.*}}[0] : {{.*}} to memref<4x16xf32, #cores.memory<local>>
// CHECK-NEXT: %[[C0:.*]] = cores.copy %[[X0]] to %[[L0]]
// CHECK: cores.wait %[[C0]]
// CHECK-NEXT: cores.acquire 2 count 3
// CHECK-NEXT: %[[S0:.*]] = cores.send %[[L0]] to {{\[\[}}0, 0], [1, 1], [0, 1]] at 0 counter 5
// CHECK: cores.run @tile_0(read %[[L0]],
// CHECK: cores.wait %[[S0]]
// CHECK: cores.program at [1, 1]
// CHECK: cores.copy %[[X1]] to %[[L1:.*]] :
// CHECK: cores.acquire 3 count 3
// CHECK-NEXT: cores.send %[[L1]] to {{\[\[}}0, 0], [1, 0], [0, 1]] at 256 counter 6
// CHECK-NOT: cores.copy %[[X1]]

// In a grid, the cores of a row share rows of X, and those of a column share columns of W. Different cores begin.
// GRID: cores.program at [0, 0]
// GRID: cores.send {{.*}} to {{\[\[}}1, 1]] at 256 counter {{.*}} memref<16x2xf32
// GRID: cores.run
// GRID: cores.program at [1, 0]
// GRID: cores.send {{.*}} to {{\[\[}}0, 0]] at 0 counter {{.*}} memref<4x16xf32
// GRID: cores.run
// GRID: cores.program at [1, 1]

// RACE: error: {{.*}} is in a race
// DEADLOCK: error: {{.*}} is a deadlock: core (0, 1) waits forever: counter 5 has 0 of 1 releases
// ROWS: error: 'cores.run' op expected operand 0 of tile {{.*}} to hold bytes 0 to 1 of argument 0 {{.*}}, got bytes 256 to 257 of argument 0

// WRITTEN: error: 'launch.dispatch' op expected numbers of accesses that only read in the attribute 'cores.multicast', which the pass repro-map-tile sets
#id = affine_map<(i, j) -> (i, j)>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x12xf32>) -> tensor<8x12xf32> attributes {repro.num_state = 0 : i64} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x12xf32>
  %z = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<8x12xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  } -> tensor<8x12xf32>
  %y = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [#a, #b, #c] iterators [parallel, parallel, reduction]
      ins(%x, %w : tensor<8x16xf32>, tensor<16x12xf32>) outs(%z : tensor<8x12xf32>) {
  ^bb0(%u: f32, %v: f32, %acc: f32):
    %r = math.fma %u, %v, %acc : f32
    repro.yield %r : f32
  } -> tensor<8x12xf32>
  return %y : tensor<8x12xf32>
}
