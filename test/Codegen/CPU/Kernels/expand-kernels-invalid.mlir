// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: %repro-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(repro-expand-kernels)"

// expected-error @below {{expected a kernel function that ends with (memref<?xi8>, memref<1xi64>, index, index) and returns nothing, got '(memref<4xf32>, memref<4xf32>) -> ()'}}
func.func private @signature(%a: memref<4xf32>, %b: memref<4xf32>) {
  memref.copy %a, %b : memref<4xf32> to memref<4xf32>
  return
}

// -----

func.func private @shape(%a: memref<?xf32>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected static shapes, strides and offsets, got 'memref<?xf32>'}}
  memref.copy %a, %b : memref<?xf32> to memref<4xf32>
  return
}

// -----

func.func private @two(%a: memref<4xf32>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  memref.copy %a, %b : memref<4xf32> to memref<4xf32>
  // expected-error @below {{expected one structured operation in a kernel function, got another after 'memref.copy'}}
  memref.copy %b, %a : memref<4xf32> to memref<4xf32>
  return
}

// -----

func.func private @nested(%a: memref<4xf32>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected a loop over blocks of rows from 0 to a constant, without results}}
  scf.forall (%i, %j) in (2, 2) {
  }
  return
}

// -----

func.func private @block(%a: memref<4xf32>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  scf.forall (%i) in (2) {
    // expected-error @below {{expected a block of static size and rank 1, got 'memref<2x2xf32>'}}
    %block = memref.alloc() : memref<2x2xf32>
  }
  return
}

// -----

func.func private @other(%a: memref<4xf32>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  scf.forall (%i) in (2) {
    // expected-error @below {{expected linalg.generic, repro.fold and memref.alloc in a loop over blocks of rows, got 'memref.copy'}}
    memref.copy %a, %b : memref<4xf32> to memref<4xf32>
  }
  return
}

// -----

func.func private @offset(%a: memref<4xf32, strided<[1], offset: ?>>, %b: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected static shapes, strides and offsets, got 'memref<4xf32, strided<[1], offset: ?>>'}}
  memref.copy %a, %b : memref<4xf32, strided<[1], offset: ?>> to memref<4xf32>
  return
}

// -----

func.func private @bound(%a: memref<4xf32>, %n: index, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected a loop over blocks of rows from 0 to a constant, without results}}
  scf.forall (%i) in (%n) {
  }
  return
}

// -----

func.func private @lonely(%a: memref<4x3xf32>, %b: memref<3xf32>, %o: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected memref.alloca, the repro.fold that writes it and the linalg.generic that reads it in a scope}}
  memref.alloca_scope {
    %t = memref.alloca() : memref<4xf32>
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%a, %b : memref<4x3xf32>, memref<3xf32>) outs(%t : memref<4xf32>) attributes {repro.init = [0.0 : f32]} {
    ^bb0(%u: f32, %v: f32, %acc: f32):
      %r = math.fma %u, %v, %acc : f32
      repro.yield %r : f32
    }
  }
  return
}

// -----

func.func private @unread(%a: memref<4x3xf32>, %b: memref<3xf32>, %o: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected memref.alloca, the repro.fold that writes it and the linalg.generic that reads it in a scope}}
  memref.alloca_scope {
    %t = memref.alloca() : memref<4xf32>
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%a, %b : memref<4x3xf32>, memref<3xf32>) outs(%t : memref<4xf32>) attributes {repro.init = [0.0 : f32]} {
    ^bb0(%u: f32, %v: f32, %acc: f32):
      %r = math.fma %u, %v, %acc : f32
      repro.yield %r : f32
    }
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%o : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%u: f32, %out: f32):
      linalg.yield %u : f32
    }
  }
  return
}

// -----

func.func private @elsewhere(%a: memref<4x3xf32>, %b: memref<3xf32>, %o: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  // expected-error @below {{expected memref.alloca, the repro.fold that writes it and the linalg.generic that reads it in a scope}}
  memref.alloca_scope {
    %t = memref.alloca() : memref<4xf32>
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%a, %b : memref<4x3xf32>, memref<3xf32>) outs(%o : memref<4xf32>) attributes {repro.init = [0.0 : f32]} {
    ^bb0(%u: f32, %v: f32, %acc: f32):
      %r = math.fma %u, %v, %acc : f32
      repro.yield %r : f32
    }
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%t : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%u: f32, %out: f32):
      linalg.yield %u : f32
    }
  }
  return
}

// -----

func.func private @start(%a: memref<4x3xf32>, %b: memref<3xf32>, %o: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  memref.alloca_scope {
    %t = memref.alloca() : memref<4xf32>
    // expected-error @below {{expected a contraction from constant initial values in a scope}}
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%a, %b : memref<4x3xf32>, memref<3xf32>) outs(%t : memref<4xf32>) {
    ^bb0(%u: f32, %v: f32, %acc: f32):
      %r = math.fma %u, %v, %acc : f32
      repro.yield %r : f32
    }
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%t : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%u: f32, %out: f32):
      linalg.yield %u : f32
    }
  }
  return
}

// -----

func.func private @loops(%a: memref<4x3xf32>, %b: memref<3xf32>, %o: memref<4x2xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  memref.alloca_scope {
    %t = memref.alloca() : memref<4xf32>
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%a, %b : memref<4x3xf32>, memref<3xf32>) outs(%t : memref<4xf32>) attributes {repro.init = [0.0 : f32]} {
    ^bb0(%u: f32, %v: f32, %acc: f32):
      %r = math.fma %u, %v, %acc : f32
      repro.yield %r : f32
    }
    // expected-error @below {{expected the parallel dimensions of the contraction as loops and its results read by affine_map<(d0) -> (d0)>, got affine_map<(d0, d1) -> (d0)>}}
    linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%t : memref<4xf32>) outs(%o : memref<4x2xf32>) {
    ^bb0(%u: f32, %out: f32):
      linalg.yield %u : f32
    }
  }
  return
}

// -----

func.func private @accumulates(%a: memref<4x3xf32>, %b: memref<3xf32>, %o: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  memref.alloca_scope {
    %t = memref.alloca() : memref<4xf32>
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%a, %b : memref<4x3xf32>, memref<3xf32>) outs(%t : memref<4xf32>) attributes {repro.init = [0.0 : f32]} {
    ^bb0(%u: f32, %v: f32, %acc: f32):
      %r = math.fma %u, %v, %acc : f32
      repro.yield %r : f32
    }
    // expected-error @below {{expected only element-wise operations on inputs in a scope}}
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%t : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%u: f32, %out: f32):
      %s = arith.addf %u, %out : f32
      linalg.yield %s : f32
    }
  }
  return
}

// -----

func.func private @counts(%a: memref<4x3xf32>, %b: memref<3xf32>, %o: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  memref.alloca_scope {
    %t = memref.alloca() : memref<4xf32>
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%a, %b : memref<4x3xf32>, memref<3xf32>) outs(%t : memref<4xf32>) attributes {repro.init = [0.0 : f32]} {
    ^bb0(%u: f32, %v: f32, %acc: f32):
      %r = math.fma %u, %v, %acc : f32
      repro.yield %r : f32
    }
    // expected-error @below {{expected only element-wise operations on inputs in a scope}}
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%t : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%u: f32, %out: f32):
      %i = linalg.index 0 : index
      %j = arith.index_cast %i : index to i32
      %s = arith.sitofp %j : i32 to f32
      %v = arith.addf %u, %s : f32
      linalg.yield %v : f32
    }
  }
  return
}

// -----

func.func private @batch(%a: memref<4x3xf32>, %b: memref<4x3xf32>, %o: memref<4xf32>, %scratch: memref<?xi8>, %error: memref<1xi64>, %begin: index, %end: index) {
  memref.alloca_scope {
    %t = memref.alloca() : memref<4xf32>
    // expected-error @below {{expected a product of two factors, each with dimensions of its own, in a scope}}
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%a, %b : memref<4x3xf32>, memref<4x3xf32>) outs(%t : memref<4xf32>) attributes {repro.init = [0.0 : f32]} {
    ^bb0(%u: f32, %v: f32, %acc: f32):
      %r = math.fma %u, %v, %acc : f32
      repro.yield %r : f32
    }
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%t : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%u: f32, %out: f32):
      linalg.yield %u : f32
    }
  }
  return
}
