// RUN: %repro-opt %s | %repro-opt | FileCheck %s
// RUN: %repro-opt %s --mlir-print-op-generic | %repro-opt | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#local = #cores.memory<local>

// CHECK: func.func private @add({{.*}}) attributes {cores.cycles = 12 : i64}
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index) attributes {cores.cycles = 12}

// CHECK: cores.plan @main machine "tiny-2x2" states(%[[S:.*]]: memref<4x8xf32> {repro.name = "s"}) inputs(%[[X:.*]]: memref<4xf32>) outputs(%[[Y:.*]]: memref<4xf32> {repro.name = "y"}) arena(%[[A:.*]]: memref<64xi8>) messages ["no good"] {
cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32> {repro.name = "s"})
    inputs(%x: memref<4xf32>) outputs(%y: memref<4xf32> {repro.name = "y"}) arena(%a: memref<64xi8>) messages ["no good"] {
  // CHECK-NEXT: %[[C:.*]] = launch.constant
  %c = launch.constant dense<1.0> : tensor<4xf32> as memref<4xf32>
  // CHECK-NEXT: cores.program at [1, 0] scratch [512, 64] error 1016 {
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  // CHECK-NEXT: ^bb0(%[[M:.*]]: memref<1024xi8, #cores.memory<local>>):
  ^bb0(%local: memref<1024xi8, #local>):
    // CHECK-NEXT: %[[L:.*]] = launch.view %[[M]][16] : memref<1024xi8, #cores.memory<local>> to memref<4xf32, #cores.memory<local>>
    %l = launch.view %local[16] : memref<1024xi8, #local> to memref<4xf32, #local>
    %m = launch.view %local[32] : memref<1024xi8, #local> to memref<4xf32, #local>
    // CHECK: %[[COLUMN:.*]] = launch.view %[[S]][4] : memref<4x8xf32> to memref<4xf32, strided<[8]>>
    %column = launch.view %s[4] : memref<4x8xf32> to memref<4xf32, strided<[8]>>
    // CHECK-NEXT: %[[T0:.*]] = cores.copy %[[COLUMN]] to %[[L]] : memref<4xf32, strided<[8]>> to memref<4xf32, #cores.memory<local>>
    %0 = cores.copy %column to %l : memref<4xf32, strided<[8]>> to memref<4xf32, #local>
    // CHECK-NEXT: cores.copy %[[C]]
    %1 = cores.copy %c to %m : memref<4xf32> to memref<4xf32, #local>
    // CHECK-NEXT: cores.wait %[[T0]]
    cores.wait %0
    cores.wait %1
    // CHECK: cores.run @add(read %{{.*}}, read|write %[[L]]) : memref<4xf32, #cores.memory<local>>, memref<4xf32, #cores.memory<local>>
    cores.run @add(read %m, read|write %l) : memref<4xf32, #local>, memref<4xf32, #local>
    // CHECK-NEXT: %[[T2:.*]] = cores.send %[[L]] to {{\[\[}}0, 0], [1, 1{{\]\]}} at 128 counter 4294967295 : memref<4xf32, #cores.memory<local>>
    %2 = cores.send %l to [[0, 0], [1, 1]] at 128 counter 4294967295 : memref<4xf32, #local>
    // CHECK-NEXT: %[[T3:.*]] = cores.copy %[[L]] to %{{.*}} : memref<4xf32, #cores.memory<local>> to memref<4xf32, #cores.memory<local>>
    %3 = cores.copy %l to %m : memref<4xf32, #local> to memref<4xf32, #local>
    cores.wait %2
    cores.wait %3
    // CHECK: cores.release 3 to {{\[\[}}0, 1{{\]\]}}
    cores.release 3 to [[0, 1]]
    // CHECK-NEXT: cores.acquire 3 count 4
    cores.acquire 3 count 4
    %words = launch.view %local[1016] : memref<1024xi8, #local> to memref<1xi64, #local>
    // CHECK: cores.check %{{.*}} : memref<1xi64, #cores.memory<local>>
    cores.check %words : memref<1xi64, #local>
  }
}

// CHECK: cores.plan @remote
cores.plan @remote machine "tiny-2x2" states() inputs() outputs() arena(%a: memref<0xi8>) messages [] {
  // CHECK-NEXT: %[[R:.*]] = cores.remote at [0, 1] : memref<64xi8, #cores.memory<remote>>
  %r = cores.remote at [0, 1] : memref<64xi8, #cores.memory<remote>>
  // CHECK-NEXT: %[[V:.*]] = launch.view %[[R]][16] : memref<64xi8, #cores.memory<remote>> to memref<2xf32, strided<[4]>, #cores.memory<remote>>
  %v = launch.view %r[16] : memref<64xi8, #cores.memory<remote>> to memref<2xf32, strided<[4]>, #cores.memory<remote>>
  cores.program at [1, 0] scratch [0, 0] error 0 {
  ^bb0(%local: memref<64xi8, #local>):
    %l = launch.view %local[16] : memref<64xi8, #local> to memref<2xf32, #local>
    // CHECK: cores.copy %[[V]] to %{{.*}} : memref<2xf32, strided<[4]>, #cores.memory<remote>> to memref<2xf32, #cores.memory<local>>
    %0 = cores.copy %v to %l : memref<2xf32, strided<[4]>, #cores.memory<remote>> to memref<2xf32, #local>
    cores.wait %0
  }
}

// CHECK: cores.plan @empty machine "" states() inputs() outputs() arena(%{{.*}}: memref<0xi8>) messages [] {
// CHECK-NEXT: }
cores.plan @empty machine "" states() inputs() outputs() arena(%a: memref<0xi8>) messages [] {
}
