// The pass alone refuses operations that name cores without a program.
// RUN: %repro-opt %s --split-input-file --verify-diagnostics --repro-verify-core-mapping
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

cores.plan @main machine "tiny-2x2" states() inputs() outputs() arena(%a: memref<0xi8>) messages [] {
  cores.program at [0, 0] scratch [64, 0] error 64 {
  ^bb0(%local: memref<128xi8, #cores.memory<local>>):
    // expected-error @+1 {{expected a core with a program, got (1, 0)}}
    cores.release 0 to [[1, 0]]
  }
}
launch.plan @launches states() inputs() outputs() arena(%a: memref<0xi8>) live 0 messages [] {
}

// -----

cores.plan @main machine "tiny-2x2" states() inputs() outputs() arena(%a: memref<0xi8>) messages [] {
  // expected-error @+1 {{expected a core with a program, got (1, 1)}}
  %other = cores.remote at [1, 1] : memref<128xi8, #cores.memory<remote>>
  cores.program at [0, 0] scratch [64, 0] error 64 {
  ^bb0(%local: memref<128xi8, #cores.memory<local>>):
  }
}
launch.plan @launches states() inputs() outputs() arena(%a: memref<0xi8>) live 0 messages [] {
}
