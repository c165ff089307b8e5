// RUN: %repro-opt %s --split-input-file --verify-diagnostics
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// expected-error @+1 {{has an arena of 64 bytes, but 65 bytes of temporaries live at once}}
launch.plan @main states() inputs() outputs() arena(%a: memref<64xi8>) live 65 messages [] {
}

// -----

// expected-error @+1 {{expected an arena of bytes, got 'memref<64xf32>'}}
launch.plan @main states() inputs() outputs() arena(%a: memref<64xf32>) live 0 messages [] {
}

// -----

// expected-error @+1 {{expected buffers of static shape that begin at their first byte, got 'memref<?xf32>'}}
launch.plan @main states(%s: memref<?xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
}

// -----

// expected-error @+1 {{expected buffers of static shape that begin at their first byte, got 'memref<4xf32, strided<[1], offset: 1>>'}}
launch.plan @main states() inputs(%x: memref<4xf32, strided<[1], offset: 1>>) outputs() arena(%a: memref<64xi8>) live 0 messages [] {
}

// -----

// expected-error @+1 {{expected buffers of static shape that begin at their first byte, got 'f32'}}
launch.plan @main states() inputs(%x: f32) outputs() arena(%a: memref<64xi8>) live 0 messages [] {
}

// -----

// The sum of the counts is 2^64 + 1.
// expected-error @+1 {{has 2 arguments, expected 9223372036854775807 states, 9223372036854775807 inputs, 3 outputs and an arena}}
"launch.plan"() <{sym_name = "main", num_states = 9223372036854775807 : i64, num_inputs = 9223372036854775807 : i64, num_outputs = 3 : i64, names = [""], live_bytes = 0 : i64, messages = []}> ({
^bb0(%s: memref<4xf32>, %a: memref<64xi8>):
}) : () -> ()

// -----

// expected-error @+1 {{expected one argument after the outputs, the arena, got 2}}
"launch.plan"() <{sym_name = "main", num_states = 0 : i64, num_inputs = 0 : i64, num_outputs = 0 : i64, names = [""], live_bytes = 0 : i64, messages = []}> ({
^bb0(%s: memref<4xf32>, %a: memref<64xi8>):
}) : () -> ()

// -----

// expected-error @+1 {{expected a name, perhaps an empty one, of each of 1 states, inputs and outputs, got 0}}
"launch.plan"() <{sym_name = "main", num_states = 1 : i64, num_inputs = 0 : i64, num_outputs = 0 : i64, names = [], live_bytes = 0 : i64, messages = []}> ({
^bb0(%s: memref<4xf32>, %a: memref<64xi8>):
}) : () -> ()

// -----

launch.plan @main states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected launches, views and constants in a plan, got 'memref.copy'}}
  memref.copy %s, %s : memref<4xf32> to memref<4xf32>
}

// -----

launch.plan @main states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected a kernel function, got '@nothing'}}
  launch.dispatch @nothing(%s) : memref<4xf32>
}

// -----

func.func private @copy(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access write>}, memref<?xi8>, memref<1xi64>, index, index)

launch.plan @main states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{has 1 buffers, but '@copy' takes 6 arguments, of which 4 are not buffers}}
  launch.dispatch @copy(%s) : memref<4xf32>
}

// -----

func.func private @copy(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access write>}, memref<?xi8>, memref<1xi64>, index, index)

launch.plan @main states(%s: memref<4xf32>, %t: memref<8xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{has a buffer of type 'memref<8xf32>', but '@copy' takes 'memref<4xf32>'}}
  launch.dispatch @copy(%s, %t) : memref<4xf32>, memref<8xf32>
}

// -----

func.func private @copy(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access write>}, memref<?xi8>, memref<1xi64>, index, index)

launch.plan @main states(%s: memref<4xf32>) inputs(%x: memref<4xf32>) outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{lets '@copy' write a constant or an input}}
  launch.dispatch @copy(%s, %x) : memref<4xf32>, memref<4xf32>
}

// -----

func.func private @copy(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access write>}, memref<?xi8>, memref<1xi64>, index, index)

launch.plan @main states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  %c = launch.constant dense<0.0> : tensor<8xf32> as memref<8xf32>
  %part = launch.view %c[16] : memref<8xf32> to memref<4xf32>
  // expected-error @+1 {{lets '@copy' write a constant or an input}}
  launch.dispatch @copy(%s, %part) : memref<4xf32>, memref<4xf32>
}

// -----

func.func private @copy(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access write>}, memref<?xi8>, memref<1xi64>, index, index)

launch.plan @main states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected both a grid and a block, or neither}}
  launch.dispatch @copy(%s, %s) grid [1, 1, 1] : memref<4xf32>, memref<4xf32>
}

// -----

func.func private @copy(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access write>}, memref<?xi8>, memref<1xi64>, index, index)

launch.plan @main states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected three positive sizes of a grid or a block}}
  launch.dispatch @copy(%s, %s) grid [1, 1, 1] block [0, 1, 1] : memref<4xf32>, memref<4xf32>
}

// -----

func.func private @copy(memref<4xf32> {launch.access = #launch<access read>}, memref<4xf32> {launch.access = #launch<access write>}, memref<?xi8>, memref<1xi64>, index, index)

launch.plan @main states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected a grid with shared memory}}
  launch.dispatch @copy(%s, %s) shared 16 : memref<4xf32>, memref<4xf32>
}

// -----

launch.plan @main states() inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{has 16 bytes at byte 52 of a buffer of 64 bytes}}
  %v = launch.view %a[52] : memref<64xi8> to memref<4xf32>
}

// -----

launch.plan @main states() inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{has 36 bytes at byte 32 of a buffer of 64 bytes}}
  %v = launch.view %a[32] : memref<64xi8> to memref<3x1xf32, strided<[4, 1]>>
}

// -----

launch.plan @main states() inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected an offset that is a multiple of the bytes of an element, got 2}}
  %v = launch.view %a[2] : memref<64xi8> to memref<4xf32>
}

// -----

launch.plan @main states() inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected buffers of static shape and strides without an offset}}
  %v = launch.view %a[0] : memref<64xi8> to memref<4xf32, strided<[1], offset: 4>>
}

// -----

// Row-major strides must fit into 63 bits, even those of an empty buffer.
launch.plan @main states() inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected buffers of static shape and strides without an offset}}
  %v = launch.view %a[0] : memref<64xi8> to memref<0x4611686018427387904x4xf32>
}

// -----

// Neither the number of elements nor the number of bytes fits into 64 bits.
launch.plan @main states() inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected buffers of static shape and strides without an offset}}
  %v = launch.view %a[0] : memref<64xi8> to memref<2x2xf32, strided<[9223372036854775807, 9223372036854775807]>>
}

// -----

launch.plan @main states() inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected a buffer of the elements of 'tensor<4xf32>'}}
  %c = launch.constant dense<0.0> : tensor<4xf32> as memref<4xi32>
}

// -----

// expected-error @+1 {{expected launch.access of argument 0 to be a #launch<access ...> of a kernel, got launch.access = "read"}}
func.func private @text(memref<4xf32> {launch.access = "read"})

// -----

// expected-error @+1 {{expected launch.access of argument 0 to be a #launch<access ...> of a kernel, got launch.acces = #launch<access read>}}
func.func private @misspelt(memref<4xf32> {launch.acces = #launch<access read>})

// -----

// expected-error @+1 {{expected items and scratch_bytes of at least 0 and a grain of at least 1, got 4, 0 and 0}}
func.func private @grain() attributes {launch.work = #launch.work<items = 4, grain = 0, scratch_bytes = 0>}

// -----

// expected-error @+1 {{expected launch.work to be a #launch.work of a kernel function}}
module attributes {launch.work = #launch.work<items = 4, grain = 1, scratch_bytes = 0>} {
}

// -----

func.func @message(%ok: i1) {
  // expected-error @+1 {{expected launch.message to be a number of 64 bits that is at least 0}}
  cf.assert %ok, "no good" {launch.message = -1 : i64}
  return
}

// -----

// expected-error @+1 {{expected launch.messages to be an array of strings of a module}}
module attributes {launch.messages = [1]} {
}

// -----

// expected-error @+1 {{has an attribute that the launch dialect does not have: launch.other}}
func.func private @other() attributes {launch.other}

// -----

// expected-error @+1 {{expected launch.tiles to be an array of strings of a kernel function}}
module attributes {launch.tiles = ["wide"]} {
}

// -----

func.func private @k(memref<4xf32>, index, index, index, index)

launch.plan @main states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected '@k' to take scratch memory, an error word, and the begin and end of its share}}
  launch.dispatch @k(%s) : memref<4xf32>
}

// -----

// expected-error @+1 {{expected launch.message to be a number of 64 bits that is at least 0}}
module attributes {launch.message = 1 : ui64} {
}

// -----

func.func private @copy(memref<4xf32>, memref<?xi8>, memref<1xi64>, index, index)

launch.plan @main states(%s: memref<8xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  %v = launch.view %s[0] : memref<8xf32> to memref<8xf32>
  // expected-error @+1 {{expected a view of a buffer, not of another view}}
  %w = launch.view %v[16] : memref<8xf32> to memref<4xf32>
  launch.dispatch @copy(%w) : memref<4xf32>
}

// -----

func.func private @copy(memref<4xf32>, memref<?xi8>, memref<1xi64>, index, index)

launch.plan @main states(%s: memref<4xf32>) inputs() outputs() arena(%a: memref<64xi8>) live 0 messages [] {
  // expected-error @+1 {{expected a kernel function, got '@copy::@inner'}}
  launch.dispatch @copy::@inner(%s) : memref<4xf32>
}
