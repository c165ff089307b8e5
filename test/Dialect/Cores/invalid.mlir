// RUN: %repro-opt %s --split-input-file --verify-diagnostics
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// expected-error @+1 {{has 1 arguments, expected 1 states, 1 inputs, 0 outputs and an arena}}
"cores.plan"() <{sym_name = "main", machine = "tiny-2x2", num_states = 1 : i64, num_inputs = 1 : i64, num_outputs = 0 : i64, names = ["", ""], messages = []}> ({
^bb0(%a: memref<64xi8>):
}) : () -> ()

// -----

#local = #cores.memory<local>

// expected-error @+1 {{expected buffers of static shape that begin at their first byte, got 'memref<4xf32, #cores.memory<local>>'}}
cores.plan @main machine "tiny-2x2" states(%s: memref<4xf32, #local>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
}

// -----

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected programs, views, constants and memories of cores in a plan, got 'memref.copy'}}
  memref.copy %s, %s : memref<4x8xf32> to memref<4x8xf32>
}

// -----

func.func @outside(%x: memref<4xf32>) {
  // expected-error @+1 {{expects parent op 'cores.program'}}
  cores.acquire 0 count 1
  return
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected the column and the row of a core}}
  cores.program at [0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected columns and rows of cores from 0 to 2^31 - 1, got [-1, 0]}}
  cores.program at [-1, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected a data memory of bytes, got 'memref<256xi32, #cores.memory<local>>'}}
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<256xi32, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected a buffer of static shape without gaps in #cores.memory<local>, got 'memref<1024xi8>'}}
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected the offset and the bytes of scratch memory}}
  cores.program at [0, 0] scratch [512] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected the offset and the bytes of scratch memory}}
  cores.program at [0, 0] scratch [512, -1] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{has 513 bytes of scratch memory at byte 512 of 1024}}
  cores.program at [0, 0] scratch [512, 513] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{has 0 bytes of scratch memory at byte 1088 of 1024}}
  cores.program at [0, 0] scratch [1088, 0] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected an offset of the scratch memory that is a multiple of 64, got 32}}
  cores.program at [0, 0] scratch [32, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{has an error word of 8 bytes at byte 1024 of 1024}}
  cores.program at [0, 0] scratch [512, 64] error 1024 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected an offset of the error word that is a multiple of 8, got 1012}}
  cores.program at [0, 0] scratch [512, 64] error 1012 {
  ^bb0(%local: memref<1024xi8, #local>):
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected one argument, the data memory, got 0}}
  "cores.program"() <{core = array<i64: 0, 0>, scratch = array<i64: 0, 0>, error = 0 : i64}> ({
  ^bb0:
  }) : () -> ()
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{expected views and operations of a core in a program, got 'launch.constant'}}
    %c = launch.constant dense<0.0> : tensor<4xf32> as memref<4xf32>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{expected a result in the memory space of the source}}
    %v = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected a buffer of the elements of 'tensor<4xf32>'}}
  %c = launch.constant dense<0.0> : tensor<4xf32> as memref<4xf32, #local>
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{expected buffers of the same shape and element type}}
    %0 = cores.copy %s to %l : memref<4x8xf32> to memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %i = launch.view %s[0] : memref<4x8xf32> to memref<4xi32>
    // expected-error @+1 {{expected buffers of the same shape and element type}}
    %0 = cores.copy %i to %l : memref<4xi32> to memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %d = launch.view %s[0] : memref<4x8xf32> to memref<4xf32>
    // expected-error @+1 {{expected at least one buffer in #cores.memory<local>}}
    %0 = cores.copy %d to %d : memref<4xf32> to memref<4xf32>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d = launch.view %x[0] : memref<8xf32> to memref<4xf32>
    // expected-error @+1 {{writes a constant or an input}}
    %0 = cores.copy %l to %d : memref<4xf32, #local> to memref<4xf32>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  %c = launch.constant dense<0.0> : tensor<4xf32> as memref<4xf32>
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{writes a constant or an input}}
    %0 = cores.copy %l to %c : memref<4xf32, #local> to memref<4xf32>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{expected a kernel function, got '@nothing'}}
    cores.run @nothing(read %l) : memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{has 1 buffers, but 'add' takes 6 arguments, of which 4 are not buffers}}
    cores.run @add(read %l) : memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %w = launch.view %local[64] : memref<1024xi8, #local> to memref<8xf32, #local>
    // expected-error @+1 {{has a buffer of type 'memref<8xf32, #cores.memory<local>>', but 'add' takes 'memref<4xf32>'}}
    cores.run @add(read %l, read|write %w) : memref<4xf32, #local>, memref<8xf32, #local>
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{has an access write of buffer 1, but 'add' declares read|write}}
    cores.run @add(read %l, write %l) : memref<4xf32, #local>, memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %d = launch.view %s[0] : memref<4x8xf32> to memref<4xf32>
    // expected-error @+1 {{expected a buffer of static shape without gaps in #cores.memory<local>, got 'memref<4xf32>'}}
    cores.run @add(read %l, read|write %d) : memref<4xf32, #local>, memref<4xf32>
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    %w = launch.view %local[64] : memref<1024xi8, #local> to memref<4xf32, strided<[2]>, #local>
    // expected-error @+1 {{expected a buffer of static shape without gaps in #cores.memory<local>, got 'memref<4xf32, strided<[2]>, #cores.memory<local>>'}}
    cores.run @add(read %w, read|write %w) : memref<4xf32, strided<[2]>, #local>, memref<4xf32, strided<[2]>, #local>
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{expected read, write or read|write, got update}}
    cores.run @add(update %l) : memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{expected an access of each of 1 buffers, got 0}}
    "cores.run"(%l) <{kernel = @add, accesses = array<i32>}> : (memref<4xf32, #local>) -> ()
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{expected accesses of number 1, 2 or 3, got 4}}
    "cores.run"(%l) <{kernel = @add, accesses = array<i32: 4>}> : (memref<4xf32, #local>) -> ()
  }
}

// -----

#local = #cores.memory<local>
func.func private @add(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access read|write>}, memref<?xi8>, memref<1xi64>, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{expected at least one buffer}}
    "cores.run"() <{kernel = @add, accesses = array<i32>}> : () -> ()
  }
}

// -----

#local = #cores.memory<local>
func.func private @k(memref<4xf32>, index, index, index, index)

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{expected 'k' to take scratch memory, an error word, and the begin and end of its share}}
    cores.run @k(read %l) : memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{expected one or more cores}}
    %0 = cores.send %l to [] at 0 counter 0 : memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{contains core [1, 0] twice}}
    %0 = cores.send %l to [[1, 0], [1, 0]] at 0 counter 0 : memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{sends to its own core}}
    %0 = cores.send %l to [[1, 0], [0, 0]] at 0 counter 0 : memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %d = launch.view %s[0] : memref<4x8xf32> to memref<4xf32>
    // expected-error @+1 {{expected a buffer of static shape without gaps in #cores.memory<local>, got 'memref<4xf32>'}}
    %0 = cores.send %d to [[1, 0]] at 0 counter 0 : memref<4xf32>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{attribute 'counter' failed to satisfy constraint}}
    %0 = cores.send %l to [[1, 0]] at 0 counter 4294967296 : memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{expected one or more cores}}
    cores.release 0 to []
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{expected columns and rows of cores from 0 to 2^31 - 1, got [0, 4294967296]}}
    cores.release 0 to [[0, 4294967296]]
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    // expected-error @+1 {{attribute 'count' failed to satisfy constraint}}
    cores.acquire 0 count 0
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %l = launch.view %local[0] : memref<1024xi8, #local> to memref<4xf32, #local>
    // expected-error @+1 {{must be 1D memref of 64-bit signless integer values}}
    cores.check %l : memref<4xf32, #local>
  }
}

// -----

#local = #cores.memory<local>

cores.plan @main machine "tiny-2x2" states(%s: memref<4x8xf32>) inputs(%x: memref<8xf32>) outputs() arena(%a: memref<64xi8>) messages [] {
  cores.program at [0, 0] scratch [512, 64] error 1016 {
  ^bb0(%local: memref<1024xi8, #local>):
    %w = launch.view %a[0] : memref<64xi8> to memref<1xi64>
    // expected-error @+1 {{expected a buffer of static shape without gaps in #cores.memory<local>, got 'memref<1xi64>'}}
    cores.check %w : memref<1xi64>
  }
}

// -----

// expected-error @+1 {{expected cores.cycles to be a number of 64 bits of a kernel function that is at least 0}}
func.func private @k() attributes {cores.cycles = -1 : i64}

// -----

// expected-error @+1 {{has an attribute that the cores dialect does not have: cores.cycle}}
func.func private @k() attributes {cores.cycle = 1 : i64}

// -----

#remote = #cores.memory<remote>

cores.plan @main machine "tiny-2x2" states() inputs() outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected the column and the row of a core}}
  %r = cores.remote at [0] : memref<64xi8, #remote>
}

// -----

cores.plan @main machine "tiny-2x2" states() inputs() outputs() arena(%a: memref<64xi8>) messages [] {
  // expected-error @+1 {{expected bytes in #cores.memory<remote>, got 'memref<64xi8, #cores.memory<local>>'}}
  %r = cores.remote at [0, 0] : memref<64xi8, #cores.memory<local>>
}

// -----

#local = #cores.memory<local>
#remote = #cores.memory<remote>

cores.plan @main machine "tiny-2x2" states() inputs() outputs() arena(%a: memref<64xi8>) messages [] {
  %r = cores.remote at [0, 0] : memref<64xi8, #remote>
  cores.program at [1, 0] scratch [0, 0] error 0 {
  ^bb0(%local: memref<64xi8, #local>):
    // expected-error @+1 {{writes the memory of another core, which only cores.send does}}
    %0 = cores.copy %local to %r : memref<64xi8, #local> to memref<64xi8, #remote>
    cores.wait %0
  }
}

// -----

// expected-error @+1 {{expected cores.matrix to be a #cores.matrix of a repro.fold}}
func.func private @kernel() attributes {cores.matrix = #cores.matrix<rows = 4, columns = 4, slice = 8>}

// -----

// expected-error @+1 {{expected numbers that are at least 1}}
func.func private @kernel() attributes {cores.matrix = #cores.matrix<rows = 4, columns = 4, slice = 0>}
