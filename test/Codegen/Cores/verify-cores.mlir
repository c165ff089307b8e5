// RUN: %repro-opt %s --repro-verify-cores --split-input-file --verify-diagnostics
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Accepted: two slots, a multicast, a box next to another one, and a cycle of credits.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l16 = launch.view %local[16] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l32 = launch.view %local[32] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d0 = launch.view %a[0] : memref<256xi8> to memref<4xf32>
    %d16 = launch.view %a[16] : memref<256xi8> to memref<4xf32>
    %d32 = launch.view %a[32] : memref<256xi8> to memref<4xf32>
    %t0_0 = launch.view %s[0] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %m128 = launch.view %local[128] : memref<1024xi8, #local> to memref<2x2xf32, #local>
    %0 = cores.copy %d0 to %l0 : memref<4xf32> to memref<4xf32, #local>
    %1 = cores.copy %d16 to %l16 : memref<4xf32> to memref<4xf32, #local>
    cores.wait %0
    cores.run @add(read %l0, read|write %l32) : memref<4xf32, #local>, memref<4xf32, #local>
    %2 = cores.copy %d32 to %l0 : memref<4xf32> to memref<4xf32, #local>
    cores.wait %1
    cores.run @add(read %l16, read|write %l32) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.wait %2
    cores.run @add(read %l0, read|write %l32) : memref<4xf32, #local>, memref<4xf32, #local>
    %3 = cores.send %l32 to [[1, 0], [0, 1]] at 64 counter 0 : memref<4xf32, #local>
    cores.wait %3
    cores.acquire 1 count 2
    cores.run @add(read %l0, read|write %l32) : memref<4xf32, #local>, memref<4xf32, #local>
    %4 = cores.send %l32 to [[1, 0], [0, 1]] at 64 counter 0 : memref<4xf32, #local>
    cores.wait %4
    %5 = cores.copy %m128 to %t0_0 : memref<2x2xf32, #local> to memref<2x2xf32, strided<[8, 1]>>
    cores.wait %5
    cores.release 2 to [[1, 0]]
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l64 = launch.view %local[64] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l128 = launch.view %local[128] : memref<1024xi8, #local> to memref<4xf32, #local>
    %t0_2 = launch.view %s[8] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %t0_0 = launch.view %s[0] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %m128 = launch.view %local[128] : memref<1024xi8, #local> to memref<2x2xf32, #local>
    %m0 = launch.view %local[0] : memref<1024xi8, #local> to memref<2x2xf32, #local>
    cores.acquire 0 count 1
    cores.run @add(read %l64, read|write %l128) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.release 1 to [[0, 0]]
    cores.acquire 0 count 2
    cores.run @add(read %l64, read|write %l128) : memref<4xf32, #local>, memref<4xf32, #local>
    %0 = cores.copy %m128 to %t0_2 : memref<2x2xf32, #local> to memref<2x2xf32, strided<[8, 1]>>
    cores.wait %0
    cores.acquire 2 count 1
    %1 = cores.copy %t0_0 to %m0 : memref<2x2xf32, strided<[8, 1]>> to memref<2x2xf32, #local>
    cores.wait %1
  }
  cores.program at [0, 1] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l64 = launch.view %local[64] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l128 = launch.view %local[128] : memref<1024xi8, #local> to memref<4xf32, #local>
    %t2_1 = launch.view %s[68] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %m128 = launch.view %local[128] : memref<1024xi8, #local> to memref<2x2xf32, #local>
    cores.acquire 0 count 1
    cores.run @add(read %l64, read|write %l128) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.release 1 to [[0, 0]]
    cores.acquire 0 count 2
    cores.run @add(read %l64, read|write %l128) : memref<4xf32, #local>, memref<4xf32, #local>
    %0 = cores.copy %m128 to %t2_1 : memref<2x2xf32, #local> to memref<2x2xf32, strided<[8, 1]>>
    cores.wait %0
  }
}

// -----

// The machine.

#local = #cores.memory<local>

// expected-error @+1 {{unknown machine of many cores}}
cores.plan @main machine "no-machine" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  // expected-error @+1 {{is for core (2, 0), which machine 'tiny-2x2' does not have}}
  cores.program at [2, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  // expected-note @+1 {{the other program}}
  cores.program at [1, 1] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
  // expected-error @+1 {{is for core (1, 1), which has another program}}
  cores.program at [1, 1] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  // expected-error @+1 {{has a data memory of 1048576 bytes, but a core of machine 'tiny-2x2' has 65536}}
  cores.program at [1, 1] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1048576xi8, #local>):
  }
}

// -----

// Transfers have one wait.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d0 = launch.view %a[0] : memref<256xi8> to memref<4xf32>
    // expected-error @+1 {{expected one 'cores.wait' of the transfer, got 0}}
    %0 = cores.copy %d0 to %l0 : memref<4xf32> to memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d0 = launch.view %a[0] : memref<256xi8> to memref<4xf32>
    // expected-error @+1 {{expected one 'cores.wait' of the transfer, got 2}}
    %0 = cores.copy %d0 to %l0 : memref<4xf32> to memref<4xf32, #local>
    cores.wait %0
    cores.wait %0
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{expected one 'cores.wait' of the transfer, got 0}}
    %0 = cores.send %l0 to [[1, 0]] at 0 counter 0 : memref<4xf32, #local>
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

// A target whose elements share bytes.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4x2xf32, strided<[1, 1]>, #local>
    %d = launch.view %a[0] : memref<256xi8> to memref<4x2xf32>
    // expected-error @+1 {{writes bytes twice, since elements of 'memref<4x2xf32, strided<[1, 1]>, #cores.memory<local>>' share bytes}}
    %0 = cores.copy %d to %l : memref<4x2xf32> to memref<4x2xf32, strided<[1, 1]>, #local>
    cores.wait %0
  }
}

// -----

// Sends and releases to other cores.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{is for core (1, 1), which has no program}}
    cores.release 0 to [[1, 1]]
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{sends 16 bytes to byte 1009 of the data memory of core (1, 0), which has 1024 bytes}}
    %0 = cores.send %l0 to [[1, 0]] at 1009 counter 0 : memref<4xf32, #local>
    cores.wait %0
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

// An acquire counts the same releases in each run.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    cores.release 0 to [[1, 1]]
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    cores.release 0 to [[1, 1]]
  }
  cores.program at [1, 1] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{counts 1 of the 2 releases of counter 0, which several programs make, so which ones it counts depends on time}}
    cores.acquire 0 count 1
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %0 = cores.send %l0 to [[1, 0]] at 0 counter 3 : memref<4xf32, #local>
    // expected-note @+1 {{the release that starts}}
    cores.release 3 to [[1, 0]]
    cores.wait %0
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{counts 1 of the 2 releases of counter 3, but one that it does not count starts before they are complete}}
    cores.acquire 3 count 1
    cores.acquire 3 count 2
  }
}

// -----

// Accepted: the same with a wait before the second release.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %0 = cores.send %l0 to [[1, 0]] at 0 counter 3 : memref<4xf32, #local>
    cores.wait %0
    cores.release 3 to [[1, 0]]
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    cores.acquire 3 count 1
    cores.acquire 3 count 2
  }
}

// -----

// Deadlocks.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{is a deadlock: core (0, 0) waits forever: counter 7 has 0 of 1 releases, and the plan makes 0}}
    cores.acquire 7 count 1
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{is a deadlock: core (0, 0) waits forever: counter 0 has 0 of 1 releases, and the plan makes 1}}
    cores.acquire 0 count 1
    cores.release 0 to [[1, 0]]
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-note @+1 {{core (1, 0) waits forever: counter 0 has 0 of 1 releases, and the plan makes 1}}
    cores.acquire 0 count 1
    cores.release 0 to [[0, 0]]
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    cores.release 0 to [[1, 0]]
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{counter 0 has 1 of 2 releases, and the plan makes 1}}
    cores.acquire 0 count 2
  }
}

// -----

// A run reads what a transfer still writes.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l32 = launch.view %local[32] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d0 = launch.view %a[0] : memref<256xi8> to memref<4xf32>
    // expected-note @+1 {{this operation, which is not ordered before, writes bytes within [0, 16) at core (0, 0)}}
    %0 = cores.copy %d0 to %l0 : memref<4xf32> to memref<4xf32, #local>
    // expected-error @+1 {{is in a race: reads bytes within [0, 16) at core (0, 0)}}
    cores.run @add(read %l0, read|write %l32) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

// A transfer overwrites what another one still reads.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l8 = launch.view %local[8] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d0 = launch.view %a[0] : memref<256xi8> to memref<4xf32>
    %d16 = launch.view %a[16] : memref<256xi8> to memref<4xf32>
    // expected-note @+1 {{reads bytes within [0, 16)}}
    %0 = cores.copy %l0 to %d0 : memref<4xf32, #local> to memref<4xf32>
    // expected-error @+1 {{is in a race: writes bytes within [8, 24)}}
    %1 = cores.copy %d16 to %l8 : memref<4xf32> to memref<4xf32, #local>
    cores.wait %0
    cores.wait %1
  }
}

// -----

// A kernel with checks writes the error word.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l32 = launch.view %local[32] : memref<1024xi8, #local> to memref<4xf32, #local>
    %e = launch.view %local[1016] : memref<1024xi8, #local> to memref<1xi64, #local>
    %w = launch.view %a[0] : memref<256xi8> to memref<1xi64>
    // expected-note @+1 {{reads bytes within [1016, 1024)}}
    %0 = cores.copy %e to %w : memref<1xi64, #local> to memref<1xi64>
    // expected-error @+1 {{is in a race: writes bytes within [1016, 1024)}}
    cores.run @add(read %l0, read|write %l32) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

// Accepted: a kernel without checks does not.

#local = #cores.memory<local>
func.func private @pure(%x: memref<4xf32> {launch.access = #launch<access read>}, %y: memref<4xf32> {launch.access = #launch<access read|write>}, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  return
}

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l32 = launch.view %local[32] : memref<1024xi8, #local> to memref<4xf32, #local>
    %e = launch.view %local[1016] : memref<1024xi8, #local> to memref<1xi64, #local>
    %w = launch.view %a[0] : memref<256xi8> to memref<1xi64>
    %0 = cores.copy %e to %w : memref<1xi64, #local> to memref<1xi64>
    cores.run @pure(read %l0, read|write %l32) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

// Kernels write their scratch memory.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l560 = launch.view %local[560] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l32 = launch.view %local[32] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d0 = launch.view %a[0] : memref<256xi8> to memref<4xf32>
    // expected-note @+1 {{writes bytes within [560, 576)}}
    %0 = cores.copy %d0 to %l560 : memref<4xf32> to memref<4xf32, #local>
    // expected-error @+1 {{is in a race: writes bytes within [512, 576)}}
    cores.run @add(read %l0, read|write %l32) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l512 = launch.view %local[512] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l32 = launch.view %local[32] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{accesses bytes twice, and once writes them: reads bytes within [512, 528) at core (0, 0), and writes bytes within [512, 576)}}
    cores.run @add(read %l512, read|write %l32) : memref<4xf32, #local>, memref<4xf32, #local>
  }
}

// -----

// A kernel does not take overlapping buffers.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l8 = launch.view %local[8] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{accesses bytes twice, and once writes them}}
    cores.run @add(read %l0, read|write %l8) : memref<4xf32, #local>, memref<4xf32, #local>
  }
}

// -----

// Accepted: it takes one buffer for two arguments.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    cores.run @add(read %l0, read|write %l0) : memref<4xf32, #local>, memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>, llvm.noalias}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{has one buffer for several arguments, one of which 'add' declares as llvm.noalias}}
    cores.run @add(read %l0, read|write %l0) : memref<4xf32, #local>, memref<4xf32, #local>
  }
}

// -----

// A kernel needs more scratch memory than the program has.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index) attributes {cores.scratch = 128 : i64}

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l32 = launch.view %local[32] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{runs 'add' with 128 bytes of scratch memory, but the program has 64}}
    cores.run @add(read %l0, read|write %l32) : memref<4xf32, #local>, memref<4xf32, #local>
  }
}

// -----

// A copy to bytes that it reads.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l8 = launch.view %local[8] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{accesses bytes twice}}
    %0 = cores.copy %l0 to %l8 : memref<4xf32, #local> to memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

// A send arrives while the core still reads.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-note @+1 {{writes bytes within [64, 80) at core (0, 0)}}
    %0 = cores.send %l0 to [[1, 0]] at 64 counter 0 : memref<4xf32, #local>
    cores.wait %0
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l64 = launch.view %local[64] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l128 = launch.view %local[128] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{is in a race: reads bytes within [64, 80) at core (1, 0)}}
    cores.run @add(read %l64, read|write %l128) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.acquire 0 count 1
  }
}

// -----

// A core reads before the arrival of a send.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-note @+1 {{writes bytes within [64, 80) at core (0, 0)}}
    %0 = cores.send %l0 to [[1, 0]] at 64 counter 0 : memref<4xf32, #local>
    cores.wait %0
    cores.release 1 to [[1, 0]]
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l64 = launch.view %local[64] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l128 = launch.view %local[128] : memref<1024xi8, #local> to memref<4xf32, #local>
    cores.acquire 5 count 1
    // expected-error @+1 {{is in a race: reads bytes within [64, 80) at core (1, 0)}}
    cores.run @add(read %l64, read|write %l128) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.acquire 0 count 1
  }
  cores.program at [0, 1] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    cores.release 5 to [[1, 0]]
  }
}

// -----

// Accepted: the wait of the sender also tells of the arrival.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %0 = cores.send %l0 to [[1, 0]] at 64 counter 0 : memref<4xf32, #local>
    cores.wait %0
    cores.release 1 to [[1, 0]]
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l64 = launch.view %local[64] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l128 = launch.view %local[128] : memref<1024xi8, #local> to memref<4xf32, #local>
    cores.acquire 1 count 1
    cores.run @add(read %l64, read|write %l128) : memref<4xf32, #local>, memref<4xf32, #local>
  }
}

// -----

// The sender changes what it still sends, though the bytes have arrived.

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %l32 = launch.view %local[32] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-note @+1 {{reads bytes within [0, 16)}}
    %0 = cores.send %l0 to [[1, 0]] at 64 counter 0 : memref<4xf32, #local>
    cores.acquire 1 count 1
    // expected-error @+1 {{is in a race: writes bytes within [0, 16)}}
    cores.run @add(read %l32, read|write %l0) : memref<4xf32, #local>, memref<4xf32, #local>
    cores.wait %0
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    cores.acquire 0 count 1
    cores.release 1 to [[0, 0]]
  }
}

// -----

// Two cores send to the same bytes.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-note @+1 {{writes bytes within [64, 80) at core (0, 0)}}
    %0 = cores.send %l0 to [[1, 0]] at 64 counter 0 : memref<4xf32, #local>
    cores.wait %0
  }
  cores.program at [0, 1] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{is in a race: writes bytes within [76, 92) at core (0, 1)}}
    %0 = cores.send %l0 to [[1, 0]] at 76 counter 0 : memref<4xf32, #local>
    cores.wait %0
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    cores.acquire 0 count 2
  }
}

// -----

// Cores write and read the DRAM without an order.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d16 = launch.view %a[16] : memref<256xi8> to memref<4xf32>
    // expected-note @+1 {{writes bytes within [16, 32) at core (0, 0)}}
    %0 = cores.copy %l0 to %d16 : memref<4xf32, #local> to memref<4xf32>
    cores.wait %0
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d4 = launch.view %a[4] : memref<256xi8> to memref<4xf32>
    // expected-error @+1 {{is in a race: reads bytes within [4, 20)}}
    %0 = cores.copy %d4 to %l0 : memref<4xf32> to memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d0 = launch.view %a[0] : memref<256xi8> to memref<4xf32>
    // expected-note @+1 {{writes bytes within [0, 16) at core (0, 0)}}
    %0 = cores.copy %l0 to %d0 : memref<4xf32, #local> to memref<4xf32>
    cores.release 0 to [[1, 0]]
    cores.wait %0
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d0 = launch.view %a[0] : memref<256xi8> to memref<4xf32>
    cores.acquire 0 count 1
    // expected-error @+1 {{is in a race: writes bytes within [0, 16) at core (1, 0)}}
    %0 = cores.copy %l0 to %d0 : memref<4xf32, #local> to memref<4xf32>
    cores.wait %0
  }
}

// -----

// Accepted: the release follows the wait, and the order passes through a third core.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d0 = launch.view %a[0] : memref<256xi8> to memref<4xf32>
    %0 = cores.copy %l0 to %d0 : memref<4xf32, #local> to memref<4xf32>
    cores.wait %0
    cores.release 0 to [[0, 1]]
  }
  cores.program at [0, 1] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    cores.acquire 0 count 1
    cores.release 0 to [[1, 0]]
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d0 = launch.view %a[0] : memref<256xi8> to memref<4xf32>
    cores.acquire 0 count 1
    %0 = cores.copy %l0 to %d0 : memref<4xf32, #local> to memref<4xf32>
    cores.wait %0
  }
}

// -----

// Boxes of the same rows: next to each other, and with a common column.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %t0_0 = launch.view %s[0] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %m0 = launch.view %local[0] : memref<1024xi8, #local> to memref<2x2xf32, #local>
    %0 = cores.copy %m0 to %t0_0 : memref<2x2xf32, #local> to memref<2x2xf32, strided<[8, 1]>>
    cores.wait %0
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %t0_2 = launch.view %s[8] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %t0_5 = launch.view %s[20] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %m0 = launch.view %local[0] : memref<1024xi8, #local> to memref<2x2xf32, #local>
    %0 = cores.copy %m0 to %t0_2 : memref<2x2xf32, #local> to memref<2x2xf32, strided<[8, 1]>>
    // expected-note @+1 {{writes bytes within [20, 60) at core (1, 0)}}
    %1 = cores.copy %m0 to %t0_5 : memref<2x2xf32, #local> to memref<2x2xf32, strided<[8, 1]>>
    cores.wait %0
    cores.wait %1
  }
  cores.program at [0, 1] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %t1_6 = launch.view %s[56] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %m0 = launch.view %local[0] : memref<1024xi8, #local> to memref<2x2xf32, #local>
    // expected-error @+1 {{is in a race: writes bytes within [56, 96) at core (0, 1)}}
    %0 = cores.copy %m0 to %t1_6 : memref<2x2xf32, #local> to memref<2x2xf32, strided<[8, 1]>>
    cores.wait %0
  }
}

// -----

// A box and a whole row, and bytes of another element type.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %t0_0 = launch.view %s[0] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %m0 = launch.view %local[0] : memref<1024xi8, #local> to memref<2x2xf32, #local>
    // expected-note @+1 {{writes bytes within [0, 40) at core (0, 0)}}
    %0 = cores.copy %m0 to %t0_0 : memref<2x2xf32, #local> to memref<2x2xf32, strided<[8, 1]>>
    cores.wait %0
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %b = launch.view %s[8] : memref<8x8xf32> to memref<24xi8>
    %c = launch.view %s[39] : memref<8x8xf32> to memref<1xi8>
    %lb = launch.view %local[0] : memref<1024xi8, #local> to memref<24xi8, #local>
    %lc = launch.view %local[32] : memref<1024xi8, #local> to memref<1xi8, #local>
    %0 = cores.copy %b to %lb : memref<24xi8> to memref<24xi8, #local>
    // expected-error @+1 {{is in a race: reads bytes within [39, 40)}}
    %1 = cores.copy %c to %lc : memref<1xi8> to memref<1xi8, #local>
    cores.wait %0
    cores.wait %1
  }
}

// -----

// Accepted: cores read the same inputs and states.

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<8x8xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<256xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %t0_0 = launch.view %s[0] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %m16 = launch.view %local[16] : memref<1024xi8, #local> to memref<2x2xf32, #local>
    %0 = cores.copy %x to %l0 : memref<4xf32> to memref<4xf32, #local>
    %1 = cores.copy %t0_0 to %m16 : memref<2x2xf32, strided<[8, 1]>> to memref<2x2xf32, #local>
    cores.wait %0
    cores.wait %1
  }
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l0 = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %t0_0 = launch.view %s[0] : memref<8x8xf32> to memref<2x2xf32, strided<[8, 1]>>
    %m16 = launch.view %local[16] : memref<1024xi8, #local> to memref<2x2xf32, #local>
    %0 = cores.copy %x to %l0 : memref<4xf32> to memref<4xf32, #local>
    %1 = cores.copy %t0_0 to %m16 : memref<2x2xf32, strided<[8, 1]>> to memref<2x2xf32, #local>
    cores.wait %0
    cores.wait %1
  }
}

// -----

// Accepted: a core reads what another core has written, and the owner overwrites it after the last read.

#local = #cores.memory<local>
#remote = #cores.memory<remote>

cores.plan @main machine "tiny-2x2" states() inputs(%x: memref<4xf32>) outputs() arena(%a: memref<0xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[16] : memref<1024xi8, #local> to memref<4xf32, #local>
    %0 = cores.copy %x to %l : memref<4xf32> to memref<4xf32, #local>
    cores.wait %0
    cores.release 0 to [[1, 0]]
    cores.acquire 1 count 1
    %1 = cores.copy %x to %l : memref<4xf32> to memref<4xf32, #local>
    cores.wait %1
  }
  %memory = cores.remote at [0, 0] : memref<1024xi8, #remote>
  %r = launch.view %memory[16] : memref<1024xi8, #remote> to memref<4xf32, #remote>
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    cores.acquire 0 count 1
    %0 = cores.copy %r to %l : memref<4xf32, #remote> to memref<4xf32, #local>
    cores.wait %0
    cores.release 1 to [[0, 0]]
  }
}

// -----

// The reader does not wait for the owner.

#local = #cores.memory<local>
#remote = #cores.memory<remote>

cores.plan @main machine "tiny-2x2" states() inputs(%x: memref<4xf32>) outputs() arena(%a: memref<0xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[16] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-note @+1 {{writes bytes within [16, 32) at core (0, 0)}}
    %0 = cores.copy %x to %l : memref<4xf32> to memref<4xf32, #local>
    cores.wait %0
    cores.release 0 to [[1, 0]]
  }
  %memory = cores.remote at [0, 0] : memref<1024xi8, #remote>
  %r = launch.view %memory[16] : memref<1024xi8, #remote> to memref<4xf32, #remote>
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{is in a race: reads bytes within [16, 32)}}
    %0 = cores.copy %r to %l : memref<4xf32, #remote> to memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

// The owner does not wait for the reader.

#local = #cores.memory<local>
#remote = #cores.memory<remote>

cores.plan @main machine "tiny-2x2" states() inputs(%x: memref<4xf32>) outputs() arena(%a: memref<0xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[16] : memref<1024xi8, #local> to memref<4xf32, #local>
    %0 = cores.copy %x to %l : memref<4xf32> to memref<4xf32, #local>
    cores.wait %0
    cores.release 0 to [[1, 0]]
    // expected-note @+1 {{writes bytes within [16, 32) at core (0, 0)}}
    %1 = cores.copy %x to %l : memref<4xf32> to memref<4xf32, #local>
    cores.wait %1
  }
  %memory = cores.remote at [0, 0] : memref<1024xi8, #remote>
  %r = launch.view %memory[16] : memref<1024xi8, #remote> to memref<4xf32, #remote>
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    cores.acquire 0 count 1
    // expected-error @+1 {{is in a race: reads bytes within [16, 32)}}
    %0 = cores.copy %r to %l : memref<4xf32, #remote> to memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

// A core without a program.

#local = #cores.memory<local>
#remote = #cores.memory<remote>

cores.plan @main machine "tiny-2x2" states() inputs(%x: memref<4xf32>) outputs() arena(%a: memref<0xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[16] : memref<1024xi8, #local> to memref<4xf32, #local>
    %0 = cores.copy %x to %l : memref<4xf32> to memref<4xf32, #local>
    cores.wait %0
    cores.release 0 to [[1, 0]]
  }
  %memory = cores.remote at [1, 1] : memref<1024xi8, #remote>
  %r = launch.view %memory[16] : memref<1024xi8, #remote> to memref<4xf32, #remote>
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{reads the memory of core (1, 1), which has no program}}
    %0 = cores.copy %r to %l : memref<4xf32, #remote> to memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

// The own core.

#local = #cores.memory<local>
#remote = #cores.memory<remote>

cores.plan @main machine "tiny-2x2" states() inputs(%x: memref<4xf32>) outputs() arena(%a: memref<0xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[16] : memref<1024xi8, #local> to memref<4xf32, #local>
    %0 = cores.copy %x to %l : memref<4xf32> to memref<4xf32, #local>
    cores.wait %0
    cores.release 0 to [[1, 0]]
  }
  %memory = cores.remote at [1, 0] : memref<1024xi8, #remote>
  %r = launch.view %memory[16] : memref<1024xi8, #remote> to memref<4xf32, #remote>
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{reads the memory of its own core as that of another core}}
    %0 = cores.copy %r to %l : memref<4xf32, #remote> to memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

// Another number of bytes.

#local = #cores.memory<local>
#remote = #cores.memory<remote>

cores.plan @main machine "tiny-2x2" states() inputs(%x: memref<4xf32>) outputs() arena(%a: memref<0xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[16] : memref<1024xi8, #local> to memref<4xf32, #local>
    %0 = cores.copy %x to %l : memref<4xf32> to memref<4xf32, #local>
    cores.wait %0
    cores.release 0 to [[1, 0]]
  }
  // expected-error @+1 {{expected the 1024 bytes of the data memory of core (0, 0), got 'memref<512xi8, #cores.memory<remote>>'}}
  %memory = cores.remote at [0, 0] : memref<512xi8, #remote>
  %r = launch.view %memory[16] : memref<512xi8, #remote> to memref<4xf32, #remote>
  cores.program at [1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    cores.acquire 0 count 1
    %0 = cores.copy %r to %l : memref<4xf32, #remote> to memref<4xf32, #local>
    cores.wait %0
  }
}

// -----

// Accepted: two buffers without elements share no byte, although they begin at the same one.

#local = #cores.memory<local>
func.func private @sort(memref<0xf32> {launch.access = #launch<access read>, llvm.noalias}, memref<0xf32> {launch.access = #launch<access write>, llvm.noalias}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states() inputs() outputs() arena(%a: memref<0xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %0 = launch.view %local[0] : memref<1024xi8, #local> to memref<0xf32, #local>
    cores.run @sort(read %0, write %0) : memref<0xf32, #local>, memref<0xf32, #local>
  }
}
