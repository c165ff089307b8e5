// (K4) Plans by hand whose arrays do not exist, or whose accumulators could overflow.
// RUN: %repro-opt %s --repro-verify-cores --split-input-file --verify-diagnostics
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Accepted: the longest slice.
func.func private @longest(%x: memref<4x512xi8>, %y: memref<512x4xi8>, %z: memref<4x4xi64>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  repro.fold #repro.any_order maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction] ins(%x, %y : memref<4x512xi8>, memref<512x4xi8>) outs(%z : memref<4x4xi64>)
      attributes {cores.matrix = #cores.matrix<rows = 4, columns = 4, slice = 511>} {
  ^bb0(%a: i8, %b: i8, %acc: i64):
    %u = arith.extsi %a : i8 to i64
    %v = arith.extsi %b : i8 to i64
    %p = arith.muli %u, %v : i64
    %s = arith.addi %acc, %p : i64
    repro.yield %s : i64
  }
  return
}

cores.plan @main machine "tiny-2x2" states() inputs() outputs() arena(%a: memref<64xi8>) messages [] {
}

// -----

func.func private @overflow(%x: memref<4x512xi8>, %y: memref<512x4xi8>, %z: memref<4x4xi64>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @+1 {{expected slices of at most 511 products of bytes, whose sum fits into the 24 bits of an accumulator of machine 'tiny-2x2' (K4), got 512}}
  repro.fold #repro.any_order maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction] ins(%x, %y : memref<4x512xi8>, memref<512x4xi8>) outs(%z : memref<4x4xi64>)
      attributes {cores.matrix = #cores.matrix<rows = 4, columns = 4, slice = 512>} {
  ^bb0(%a: i8, %b: i8, %acc: i64):
    %u = arith.extsi %a : i8 to i64
    %v = arith.extsi %b : i8 to i64
    %p = arith.muli %u, %v : i64
    %s = arith.addi %acc, %p : i64
    repro.yield %s : i64
  }
  return
}

cores.plan @main machine "tiny-2x2" states() inputs() outputs() arena(%a: memref<64xi8>) messages [] {
}

// -----

func.func private @floats(%x: memref<4x8xi8>, %y: memref<8x4xi8>, %z: memref<4x4xi64>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @+1 {{expected an array of 8 x 16 multipliers of bytes in a core of machine 'wormhole-n150', which has 8 x 16 multipliers of 16 bits}}
  repro.fold #repro.any_order maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction] ins(%x, %y : memref<4x8xi8>, memref<8x4xi8>) outs(%z : memref<4x4xi64>)
      attributes {cores.matrix = #cores.matrix<rows = 8, columns = 16, slice = 8>} {
  ^bb0(%a: i8, %b: i8, %acc: i64):
    %u = arith.extsi %a : i8 to i64
    %v = arith.extsi %b : i8 to i64
    %p = arith.muli %u, %v : i64
    %s = arith.addi %acc, %p : i64
    repro.yield %s : i64
  }
  return
}

cores.plan @main machine "wormhole-n150" states() inputs() outputs() arena(%a: memref<64xi8>) messages [] {
}
