// For each stage, repro-opt reads a program in the stored form of docs/verification/identity.md.

// RUN: %repro-opt --mlir-print-debuginfo %S/Inputs/subtract.program | FileCheck %s
// RUN: %repro-opt --schedule %S/Inputs/subtract.program | FileCheck %s --check-prefix=SCHEDULE
// RUN: %repro-opt --pass-pipeline='builtin.module(cpu{level=x86-64-v2})' %S/Inputs/subtract.program | FileCheck %s --check-prefix=CPU
// RUN: %repro-opt --gpu %S/Inputs/subtract.program -o %t.mlir && FileCheck %s --check-prefix=GPU --input-file=%t.mlir
// RUN: head -c 900 %S/Inputs/subtract.program > %t.program
// RUN: not %repro-opt %t.program 2>&1 | FileCheck %s --check-prefix=CUT

// CHECK: repro.name = "w"
// CHECK: arith.subf {{.*}} loc(#[[LINE:.*]])
// CHECK: #[[LINE]] = loc("model.py":7:3)

// SCHEDULE: func.func private @kernel_0
// SCHEDULE: arith.subf

// CPU: llvm.func @kernel_0
// CPU: llvm.fsub

// GPU: launch.plan @main

// CUT: error: (H2) byte {{[0-9]+}} of the stored program: expected no more bytes than the file holds
