// RUN: %repro-opt %s --verify-diagnostics --repro-expand-device-kernels
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

func.func private @blocks(%a: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected one structured operation in a kernel of a device, got 'scf.forall'}}
  scf.forall (%i) in (2) {
  }
  return
}

launch.plan @main states() inputs() outputs() arena(%arena: memref<0xi8>) live 0 messages [] {
}
