// The programs compute their launches, which the pass erases. Without the launches, it refuses the plan.
// RUN: %repro-opt %s --split-input-file --verify-diagnostics --repro-verify-cores --repro-verify-core-mapping | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-NOT: @negate
// CHECK: func.func private @tile_0
// CHECK: cores.plan @main
// CHECK-NOT: launch.plan

#id = affine_map<(i) -> (i)>
#local = #cores.memory<local>

func.func private @negate(%x: memref<8xf32> {launch.access = #launch<access read>, llvm.noalias}, %y: memref<8xf32> {launch.access = #launch<access write>, llvm.noalias}, %scratch: memref<?xi8> {llvm.noalias}, %error: memref<1xi64> {llvm.noalias}, %begin: index, %end: index) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  }
  return
}

func.func private @tile_0(%x: memref<4xf32> {launch.access = #launch<access read>, llvm.noalias}, %y: memref<4xf32> {launch.access = #launch<access write>, llvm.noalias}, %scratch: memref<?xi8> {llvm.noalias}, %error: memref<1xi64> {llvm.noalias}, %begin: index, %end: index) attributes {cores.cycles = 12 : i64} {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  }
  return
}

// The second launch's tile of core (1, 0) arrives as a message instead of a copy from the DRAM.
cores.plan @main machine "tiny-2x2" states() inputs(%x: memref<8xf32>) outputs(%y: memref<8xf32>) arena(%a: memref<32xi8>) messages [] {
  %x0 = launch.view %x[0] : memref<8xf32> to memref<4xf32>
  %y0 = launch.view %y[0] : memref<8xf32> to memref<4xf32>
  %x1 = launch.view %x[16] : memref<8xf32> to memref<4xf32>
  %y1 = launch.view %y[16] : memref<8xf32> to memref<4xf32>
  cores.program at [0, 0] scratch [1024, 0] error 1024 {
  ^bb0(%local: memref<2048xi8, #local>):
    %0 = launch.view %local[0] : memref<2048xi8, #local> to memref<4xf32, #local>
    %1 = launch.view %local[16] : memref<2048xi8, #local> to memref<4xf32, #local>
    %c0 = cores.copy %x0 to %0 : memref<4xf32> to memref<4xf32, #local>
    cores.wait %c0
    cores.run @tile_0(read %0, write %1) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.run @tile_0(read %1, write %0) : memref<4xf32, #local>, memref<4xf32, #local>
    %c1 = cores.copy %0 to %y0 : memref<4xf32, #local> to memref<4xf32>
    cores.wait %c1
    %2 = launch.view %local[32] : memref<2048xi8, #local> to memref<4xf32, #local>
    %3 = launch.view %local[48] : memref<2048xi8, #local> to memref<4xf32, #local>
    %c2 = cores.copy %x1 to %2 : memref<4xf32> to memref<4xf32, #local>
    cores.wait %c2
    %c3 = cores.send %2 to [[1, 0]] at 64 counter 0 : memref<4xf32, #local>
    cores.wait %c3
  }
  cores.program at [1, 0] scratch [1024, 0] error 1024 {
  ^bb0(%local: memref<2048xi8, #local>):
    %0 = launch.view %local[64] : memref<2048xi8, #local> to memref<4xf32, #local>
    %1 = launch.view %local[0] : memref<2048xi8, #local> to memref<4xf32, #local>
    cores.acquire 0 count 1
    cores.run @tile_0(read %0, write %1) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.run @tile_0(read %1, write %0) : memref<4xf32, #local>, memref<4xf32, #local>
    %c1 = cores.copy %0 to %y1 : memref<4xf32, #local> to memref<4xf32>
    cores.wait %c1
  }
}

launch.plan @launches states() inputs(%x: memref<8xf32>) outputs(%y: memref<8xf32>) arena(%a: memref<32xi8>) live 32 messages [] {
  %t = launch.view %a[0] : memref<32xi8> to memref<8xf32>
  launch.dispatch @negate(%x, %t) {cores.partition = array<i64: 2>, cores.place = array<i64: 0, 1>, cores.tile = array<i64: 4>} : memref<8xf32>, memref<8xf32>
  launch.dispatch @negate(%t, %y) {cores.partition = array<i64: 2>, cores.place = array<i64: 0, 1>, cores.tile = array<i64: 4>} : memref<8xf32>, memref<8xf32>
}

// -----

// expected-error@+1 {{expected one 'launch.plan', which repro-plan-buffers makes of 'main'}}
module {
  cores.plan @main machine "tiny-2x2" states() inputs() outputs() arena(%a: memref<0xi8>) messages [] {
  }
}

// -----

// (E1) A copy overwrites the error word of a core.

#id = affine_map<(i) -> (i)>
#local = #cores.memory<local>

func.func private @negate(%x: memref<4xf32> {launch.access = #launch<access read>, llvm.noalias}, %y: memref<4xf32> {launch.access = #launch<access write>, llvm.noalias}, %scratch: memref<?xi8> {llvm.noalias}, %error: memref<1xi64> {llvm.noalias}, %begin: index, %end: index) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  }
  return
}

func.func private @tile_0(%x: memref<4xf32> {launch.access = #launch<access read>, llvm.noalias}, %y: memref<4xf32> {launch.access = #launch<access write>, llvm.noalias}, %scratch: memref<?xi8> {llvm.noalias}, %error: memref<1xi64> {llvm.noalias}, %begin: index, %end: index) attributes {cores.cycles = 12 : i64} {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  }
  return
}

cores.plan @main machine "tiny-2x2" states() inputs(%x: memref<4xf32>) outputs(%y: memref<4xf32>) arena(%a: memref<0xi8>) messages [] {
  %x0 = launch.view %x[0] : memref<4xf32> to memref<2xf32>
  // expected-error@+1 {{expected the error word of core (0, 0) at byte 1024 of its memory, which other operations have overwritten}}
  cores.program at [0, 0] scratch [1024, 0] error 1024 {
  ^bb0(%local: memref<2048xi8, #local>):
    %0 = launch.view %local[0] : memref<2048xi8, #local> to memref<4xf32, #local>
    %1 = launch.view %local[16] : memref<2048xi8, #local> to memref<4xf32, #local>
    %c0 = cores.copy %x to %0 : memref<4xf32> to memref<4xf32, #local>
    cores.wait %c0
    cores.run @tile_0(read %0, write %1) : memref<4xf32, #local>, memref<4xf32, #local>
    %c1 = cores.copy %1 to %y : memref<4xf32, #local> to memref<4xf32>
    cores.wait %c1
    %w = launch.view %local[1024] : memref<2048xi8, #local> to memref<2xf32, #local>
    %c2 = cores.copy %x0 to %w : memref<2xf32> to memref<2xf32, #local>
    cores.wait %c2
  }
}

launch.plan @launches states() inputs(%x: memref<4xf32>) outputs(%y: memref<4xf32>) arena(%a: memref<0xi8>) live 0 messages [] {
  launch.dispatch @negate(%x, %y) {cores.partition = array<i64: 1>, cores.place = array<i64: 0>, cores.tile = array<i64: 4>} : memref<4xf32>, memref<4xf32>
}
