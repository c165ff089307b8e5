// REQUIRES: native-tests
// RUN: %repro-opt %s --pass-pipeline='builtin.module(repro-verify-cores,cpu-expand{level=x86-64-v2},cpu-lower{level=x86-64-v2})' -o %t.mlir
// RUN: repro-translate --cores-to-plan --level=x86-64-v2 %t.mlir -o %t.plan
// RUN: %native/simulator-print-core-plan %t.plan | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#local = #cores.memory<local>
#remote = #cores.memory<remote>
#id = affine_map<(i, j) -> (i, j)>

func.func private @tile(%x: memref<2x4xf32> {launch.access = #launch<access read>}, %y: memref<2x4xf32> {launch.access = #launch<access read|write>}, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) attributes {cores.cycles = 96} {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : memref<2x4xf32>) outs(%y : memref<2x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  }
  return
}

// CHECK: level x86-64-v2, machine of {{[1-9][0-9]*}} bytes, 2 objects
// CHECK-NEXT: state 's' f32 [4 8]
// CHECK-NEXT: input '' f32 [2 4]
// CHECK-NEXT: output 'y' i8 [8]
// CHECK-NEXT: arena 64 constants 32
// CHECK-NEXT: message 'no good'
// CHECK-NEXT: kernel tile items {{[1-9][0-9]*}} scratch 0 code 0 cycles 96 buffers 32:1 32:3
cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32> {repro.name = "s"}) inputs(%x: memref<2x4xf32>)
    outputs(%y: memref<8xi8> {repro.name = "y"}) arena(%a: memref<64xi8>) messages ["no good"] {
  %c = launch.constant dense<1.0> : tensor<2x4xf32> as memref<2x4xf32>
  %box = launch.view %s[16] : memref<4x8xf32> to memref<2x4xf32, strided<[8, 1]>>
  %words = launch.view %a[8] : memref<64xi8> to memref<2xi64>
  // CHECK-NEXT: program (0,1) local 1024 code 0 scratch 512+64 error 1016
  cores.program at [0, 1] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<2x4xf32, #local>
    %m = launch.view %local[64] : memref<1024xi8, #local> to memref<2x4xf32, #local>
    // CHECK-NEXT: copy 0:0+16 to 5:0+0 bytes 4 extents [2 4] strides [32 4] [16 4]
    %0 = cores.copy %box to %l : memref<2x4xf32, strided<[8, 1]>> to memref<2x4xf32, #local>
    // CHECK-NEXT: copy 4:0+0 to 5:0+64 bytes 4 extents [8] strides [4] [4]
    %1 = cores.copy %c to %m : memref<2x4xf32> to memref<2x4xf32, #local>
    // CHECK-NEXT: wait 1
    cores.wait %1
    // CHECK-NEXT: wait 0
    cores.wait %0
    // CHECK-NEXT: run 0 at [0 64]
    cores.run @tile(read %l, read|write %m) : memref<2x4xf32, #local>, memref<2x4xf32, #local>
    // CHECK-NEXT: send 32 at 64 to {{\[}}(1,0) (1,1)] at 128 counter 7
    %2 = cores.send %m to [[1, 0], [1, 1]] at 128 counter 7 : memref<2x4xf32, #local>
    // CHECK-NEXT: wait 2
    cores.wait %2
    // CHECK-NEXT: release 8 to {{\[}}(1,1)]
    cores.release 8 to [[1, 1]]
  }
  // CHECK-NEXT: program (1,0)
  cores.program at [1, 0] scratch [0, 0] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // CHECK-NEXT: acquire 7 count 1
    cores.acquire 7 count 1
    %l = launch.view %local[128] : memref<1024xi8, #local> to memref<8xi8, #local>
    // CHECK-NEXT: copy 5:0+128 to 2:0+0 bytes 1 extents [8] strides [1] [1]
    %0 = cores.copy %l to %y : memref<8xi8, #local> to memref<8xi8>
    cores.wait %0
  }
  %memory = cores.remote at [0, 1] : memref<1024xi8, #remote>
  // CHECK: program (1,1)
  cores.program at [1, 1] scratch [0, 0] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    cores.acquire 8 count 1
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<2xi64, #local>
    // CHECK: copy 3:0+8 to 5:0+0 bytes 8 extents [2] strides [8] [8]
    %0 = cores.copy %words to %l : memref<2xi64> to memref<2xi64, #local>
    cores.wait %0
    // CHECK: copy 6:0+68 to 5:0+32 bytes 4 extents [3] strides [8] [4]
    %remote = launch.view %memory[68] : memref<1024xi8, #remote> to memref<3xf32, strided<[2]>, #remote>
    %m = launch.view %local[32] : memref<1024xi8, #local> to memref<3xf32, #local>
    %1 = cores.copy %remote to %m : memref<3xf32, strided<[2]>, #remote> to memref<3xf32, #local>
    cores.wait %1
    // CHECK: check 2 at 0
    cores.check %l : memref<2xi64, #local>
  }
}
