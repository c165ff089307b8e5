// RUN: %repro-opt %s | %repro-opt | FileCheck %s
// RUN: %repro-opt %s --mlir-print-op-generic | %repro-opt | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

gpu.module @device {
  gpu.func @add(%x: memref<4xf32>, %y: memref<4xf32>, %error: memref<1xi64>) kernel {
    gpu.return
  }
}

// A plan for a CPU, a plan for a GPU, and a plan whose kernels are bytes.

// CHECK: launch.plan @cpu states(%[[S:.*]]: memref<4xf32> {repro.name = "s"}) inputs(%[[X:.*]]: memref<8xf32>) outputs(%[[Y:.*]]: memref<2x2xf32> {repro.name = "y"}) arena(%[[A:.*]]: memref<64xi8>) live 16 messages ["no good"] {
// CHECK-NEXT: %[[C:.*]] = launch.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32> as memref<4xf32>
// CHECK-NEXT: %[[T:.*]] = launch.view %[[A]][0] : memref<64xi8> to memref<4xf32>
// CHECK-NEXT: %[[U:.*]] = launch.view %[[X]][16] : memref<8xf32> to memref<4xf32>
// CHECK-NEXT: launch.view %[[Y]][4] : memref<2x2xf32> to memref<2x1xf32, strided<[2, 1]>>
// CHECK-NEXT: launch.dispatch @add(%[[C]], %[[T]]) : memref<4xf32>, memref<4xf32>
// CHECK-NEXT: launch.dispatch @add(%[[U]], %[[S]]) checked : memref<4xf32>, memref<4xf32>
// CHECK-NEXT: }
launch.plan @cpu states(%s: memref<4xf32> {repro.name = "s"}) inputs(%x: memref<8xf32>)
    outputs(%y: memref<2x2xf32> {repro.name = "y"}) arena(%a: memref<64xi8>) live 16 messages ["no good"] {
  %c = launch.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> as memref<4xf32>
  %t = launch.view %a[0] : memref<64xi8> to memref<4xf32>
  %u = launch.view %x[16] : memref<8xf32> to memref<4xf32>
  %column = launch.view %y[4] : memref<2x2xf32> to memref<2x1xf32, strided<[2, 1]>>
  launch.dispatch @add(%c, %t) : memref<4xf32>, memref<4xf32>
  launch.dispatch @add(%u, %s) checked : memref<4xf32>, memref<4xf32>
}

// CHECK: launch.plan @gpu
// CHECK-NEXT: launch.dispatch @device::@add(%{{.*}}, %{{.*}}) grid [4, 1, 1] block [128, 1, 1] shared 1024 checked : memref<4xf32>, memref<4xf32>
launch.plan @gpu states(%s: memref<4xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<0xi8>) live 0 messages [] {
  launch.dispatch @device::@add(%x, %s) grid [4, 1, 1] block [128, 1, 1] shared 1024 checked : memref<4xf32>, memref<4xf32>
}

gpu.binary @code [#gpu.object<#nvvm.target, "bytes">]

// CHECK: launch.plan @binary
// CHECK-NEXT: launch.dispatch @code::@anything(%{{.*}}) grid [1, 1, 1] block [32, 1, 1] : memref<4xf32>
launch.plan @binary states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<0xi8>) live 0 messages [] {
  launch.dispatch @code::@anything(%s) grid [1, 1, 1] block [32, 1, 1] : memref<4xf32>
}
