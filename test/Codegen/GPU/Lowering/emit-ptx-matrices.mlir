// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: %repro-opt %s --repro-emit-ptx=arch=sm_80 | FileCheck %s

// A matrix instruction between two branches on the same condition is not duplicated: all threads of a warp execute it.
// CHECK-COUNT-1: mma.sync.aligned.m16n8k16
// CHECK-NOT: mma.sync
gpu.module @device {
  llvm.func @kernel(%x: i32, %out: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
    %zero = llvm.mlir.constant(0 : i32) : i32
    %yes = llvm.mlir.constant(true) : i1
    %no = llvm.mlir.constant(false) : i1
    %thread = nvvm.read.ptx.sreg.tid.x : i32
    %isFirst = llvm.icmp "eq" %thread, %zero : i32
    llvm.cond_br %isFirst, ^first, ^together(%no : i1)
  ^first:
    llvm.store volatile %x, %out : i32, !llvm.ptr<1>
    llvm.br ^together(%yes : i1)
  ^together(%wasFirst: i1):
    %result = nvvm.mma.sync A[%x, %x] B[%x] C[%zero, %zero, %zero, %zero]
        {intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>, layoutA = #nvvm.mma_layout<row>,
         layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<s8>,
         multiplicandBPtxType = #nvvm.mma_type<s8>, shape = #nvvm.shape<m = 16, n = 8, k = 16>}
        : (i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32)>
    %value = llvm.extractvalue %result[0] : !llvm.struct<(i32, i32, i32, i32)>
    llvm.store volatile %value, %out : i32, !llvm.ptr<1>
    llvm.cond_br %wasFirst, ^last, ^end
  ^last:
    llvm.store volatile %thread, %out : i32, !llvm.ptr<1>
    llvm.br ^end
  ^end:
    llvm.return
  }
}
