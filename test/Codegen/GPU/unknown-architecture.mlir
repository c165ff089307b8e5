// RUN: not %repro-opt %s -repro-expand-device-kernels=arch=sm_20 2>&1 | FileCheck %s
// RUN: not %repro-opt %s -repro-emit-ptx=arch=sm_20 2>&1 | FileCheck %s

// CHECK: error: unknown architecture 'sm_20', expected one of sm_75, sm_80,
module {}
