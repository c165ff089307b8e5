// RUN: %repro-opt %s --split-input-file --repro-number-checks --repro-outline-kernels --repro-plan-buffers | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#id = affine_map<(i) -> (i)>

// A state that is updated element by element is written in place; the output has
// its own buffer; an element-wise result reuses the buffer of an operand that is
// not read afterwards.

// CHECK-LABEL: launch.plan @main
// CHECK-SAME: states(%[[S:[a-z0-9]+]]: memref<16xf32>) inputs(%[[X:[a-z0-9]+]]: memref<16xf32>)
// CHECK-SAME: outputs(%[[Y:[a-z0-9]+]]: memref<16xf32> {repro.name = "y"}) arena(%[[A:[a-z0-9]+]]: memref<64xi8>) live 64 messages []
// CHECK: %[[T0:.*]] = launch.view %[[A]][0]
// CHECK: launch.dispatch @kernel_0(%[[X]], %[[T0]])
// CHECK: launch.dispatch @kernel_0(%[[T0]], %[[T0]])
// CHECK: launch.dispatch @kernel_0(%[[T0]], %[[Y]])
// CHECK: launch.dispatch @kernel_1(%[[S]], %[[X]], %[[S]]) :
// CHECK-NEXT: }
func.func @main(%s: memref<16xf32>, %x: memref<16xf32>) -> (memref<16xf32>, memref<16xf32> {repro.name = "y"})
    attributes {repro.num_state = 1 : i64} {
  %t0 = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<16xf32>) outs(%t0 : memref<16xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %t1 = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%t0 : memref<16xf32>) outs(%t1 : memref<16xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %y = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%t1 : memref<16xf32>) outs(%y : memref<16xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %n = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%s, %x : memref<16xf32>, memref<16xf32>) outs(%n : memref<16xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %r = arith.addf %u, %v : f32
    linalg.yield %r : f32
  }
  return %n, %y : memref<16xf32>, memref<16xf32>
}

// -----

#id = affine_map<(i) -> (i)>
#back = affine_map<(i) -> (15 - i)>

// A kernel that reads other elements than it writes cannot work in place: the new
// state is copied at the end.

// CHECK-LABEL: launch.plan @main
// CHECK-SAME: states(%[[S:[a-z0-9]+]]: memref<16xf32>) inputs() outputs() arena(%[[A:[a-z0-9]+]]: memref<64xi8>)
// CHECK: %[[T:.*]] = launch.view %[[A]]
// CHECK: launch.dispatch @kernel_0(%[[S]], %[[T]])
// CHECK: launch.dispatch @copy_0(%[[T]], %[[S]])
func.func @main(%s: memref<16xf32>) -> memref<16xf32> attributes {repro.num_state = 1 : i64} {
  %n = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#back, #id], iterator_types = ["parallel"]} ins(%s : memref<16xf32>) outs(%n : memref<16xf32>) {
  ^bb0(%u: f32, %o: f32):
    linalg.yield %u : f32
  }
  return %n : memref<16xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// (E1) No state is written while a check can still fail: the update before the
// check goes to the arena. The launch of the first write checks for errors.

// CHECK-LABEL: launch.plan @main
// CHECK-SAME: states(%[[S:[a-z0-9]+]]: memref<16xf32>) inputs() outputs() arena(%[[A:[a-z0-9]+]]: memref<{{.*}}xi8>)
// CHECK-SAME: messages ["{{.*}}not a number"]
// CHECK: %[[T:.*]] = launch.view %[[A]]
// CHECK: launch.dispatch @kernel_0(%[[S]], %[[T]])
// CHECK: launch.dispatch @kernel_1
// CHECK: launch.dispatch @copy_0(%[[T]], %[[S]]) checked
func.func @main(%s: memref<16xf32>) -> memref<16xf32> attributes {repro.num_state = 1 : i64} {
  %n = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%s : memref<16xf32>) outs(%n : memref<16xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %c = memref.alloc() : memref<16xi1>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%n : memref<16xf32>) outs(%c : memref<16xi1>) {
  ^bb0(%u: f32, %o: i1):
    %ok = arith.cmpf ord, %u, %u : f32
    cf.assert %ok, "not a number"
    linalg.yield %ok : i1
  }
  return %n : memref<16xf32>
}

// -----

// Two states are exchanged: one is copied through a temporary.

// CHECK-LABEL: launch.plan @main
// CHECK-SAME: states(%[[A:[a-z0-9]+]]: memref<4xf32>, %[[B:[a-z0-9]+]]: memref<4xf32>) inputs() outputs() arena(%{{.*}}: memref<64xi8>)
// CHECK: %[[T:.*]] = launch.view
// CHECK: launch.dispatch @copy_0(%[[B]], %[[T]])
// CHECK: launch.dispatch @copy_0(%[[A]], %[[B]])
// CHECK: launch.dispatch @copy_0(%[[T]], %[[A]])
func.func @main(%a: memref<4xf32>, %b: memref<4xf32>) -> (memref<4xf32>, memref<4xf32>) attributes {repro.num_state = 2 : i64} {
  return %b, %a : memref<4xf32>, memref<4xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// Buffers of a kernel are `noalias` unless a launch passes one buffer twice.

// CHECK: func.func private @kernel_0(%{{.*}}: memref<16xf32> {launch.access = #launch<access read>, llvm.noalias}, %{{.*}}: memref<16xf32> {launch.access = #launch<access write>, llvm.noalias}
// CHECK: func.func private @kernel_1(%{{.*}}: memref<16xf32> {launch.access = #launch<access read>}, %{{.*}}: memref<16xf32> {launch.access = #launch<access write>}
// CHECK-LABEL: launch.plan @main
func.func @main(%s: memref<16xf32>) -> (memref<16xf32>, memref<16xf32>) attributes {repro.num_state = 1 : i64} {
  %y = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%s : memref<16xf32>) outs(%y : memref<16xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.negf %u : f32
    linalg.yield %r : f32
  }
  %n = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%s : memref<16xf32>) outs(%n : memref<16xf32>) {
  ^bb0(%u: f32, %o: f32):
    %r = arith.addf %u, %u : f32
    linalg.yield %r : f32
  }
  return %n, %y : memref<16xf32>, memref<16xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>

// A result is in place only if each element is computed from the element at the
// same address: neither a transposed operand nor one of another type qualifies.
// A dead operand becomes the buffer of one of two results.

// CHECK-LABEL: launch.plan @main
// CHECK: %[[T:.*]] = launch.view
// CHECK: launch.dispatch @kernel_0(%{{.*}}, %[[T]])
// CHECK: %[[U:.*]] = launch.view
// CHECK: launch.dispatch @kernel_1(%[[T]], %[[U]])
// CHECK: %[[V:.*]] = launch.view
// CHECK: launch.dispatch @kernel_2(%[[U]], %[[V]])
// CHECK: %[[W:.*]] = launch.view
// CHECK: launch.dispatch @kernel_3(%[[V]], %[[U]], %[[U]], %[[W]])
// CHECK: launch.dispatch @kernel_4(%[[U]], %[[W]], %{{.*}})
func.func @main(%x: memref<4x4xf32>) -> memref<4x4xf32> attributes {repro.num_state = 0 : i64} {
  %t = memref.alloc() : memref<4x4xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : memref<4x4xf32>) outs(%t : memref<4x4xf32>) {
  ^bb0(%e: f32, %o: f32):
    %r = arith.negf %e : f32
    linalg.yield %r : f32
  }
  %u = memref.alloc() : memref<4x4xf32>
  linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%t : memref<4x4xf32>) outs(%u : memref<4x4xf32>) {
  ^bb0(%e: f32, %o: f32):
    %r = arith.negf %e : f32
    linalg.yield %r : f32
  }
  %v = memref.alloc() : memref<4x4xi32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%u : memref<4x4xf32>) outs(%v : memref<4x4xi32>) {
  ^bb0(%e: f32, %o: i32):
    %r = arith.bitcast %e : f32 to i32
    linalg.yield %r : i32
  }
  %w = memref.alloc() : memref<4x4xf32>
  %z = memref.alloc() : memref<4x4xf32>
  linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%v, %u : memref<4x4xi32>, memref<4x4xf32>) outs(%w, %z : memref<4x4xf32>, memref<4x4xf32>) {
  ^bb0(%e: i32, %f: f32, %o: f32, %q: f32):
    %g = arith.bitcast %e : i32 to f32
    %r = arith.addf %g, %f : f32
    linalg.yield %r, %g : f32, f32
  }
  %y = memref.alloc() : memref<4x4xf32>
  linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w, %z : memref<4x4xf32>, memref<4x4xf32>) outs(%y : memref<4x4xf32>) {
  ^bb0(%e: f32, %f: f32, %o: f32):
    %r = arith.addf %e, %f : f32
    linalg.yield %r : f32
  }
  return %y : memref<4x4xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// An operand that is read later keeps its buffer.

// CHECK-LABEL: launch.plan @main
// CHECK: %[[T:.*]] = launch.view
// CHECK: launch.dispatch @kernel_0(%{{.*}}, %[[T]])
// CHECK: %[[U:.*]] = launch.view
// CHECK: launch.dispatch @kernel_0(%[[T]], %[[U]])
// CHECK: launch.dispatch @kernel_1(%[[T]], %[[U]], %{{.*}})
func.func @main(%x: memref<16xf32>) -> memref<16xf32> attributes {repro.num_state = 0 : i64} {
  %t = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<16xf32>) outs(%t : memref<16xf32>) {
  ^bb0(%e: f32, %o: f32):
    %r = arith.negf %e : f32
    linalg.yield %r : f32
  }
  %u = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%t : memref<16xf32>) outs(%u : memref<16xf32>) {
  ^bb0(%e: f32, %o: f32):
    %r = arith.negf %e : f32
    linalg.yield %r : f32
  }
  %y = memref.alloc() : memref<16xf32>
  linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%t, %u : memref<16xf32>, memref<16xf32>) outs(%y : memref<16xf32>) {
  ^bb0(%e: f32, %f: f32, %o: f32):
    %r = arith.addf %e, %f : f32
    linalg.yield %r : f32
  }
  return %y : memref<16xf32>
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#y = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (m, n)>
#same = affine_map<(m, n) -> (m, n)>

// A product that ends in the new state overwrites the old state, unless the old
// state is one of its factors.

// CHECK-LABEL: launch.plan @main
// CHECK-SAME: states(%[[S:[a-z0-9]+]]: memref<4x4xf32>, %[[T:[a-z0-9]+]]: memref<4x4xf32>) inputs(%[[X:[a-z0-9]+]]: memref<4x4xf32>) outputs() arena(%[[A:[a-z0-9]+]]: memref<64xi8>)
// CHECK: launch.dispatch @kernel_0(%[[X]], %[[S]], %[[S]])
// CHECK: %[[V:.*]] = launch.view %[[A]]
// CHECK: launch.dispatch @kernel_1(%[[X]], %[[T]], %[[V]])
// CHECK: launch.dispatch @copy_0(%[[V]], %[[T]])
func.func @main(%s: memref<4x4xf32>, %t: memref<4x4xf32>, %x: memref<4x4xf32>) -> (memref<4x4xf32>, memref<4x4xf32>) attributes {repro.num_state = 2 : i64} {
  %u = memref.alloc() : memref<4x4xf32>
  memref.alloca_scope {
    %r = memref.alloca() : memref<4x4xf32>
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%x, %x : memref<4x4xf32>, memref<4x4xf32>) outs(%r : memref<4x4xf32>) attributes {repro.init = [0.0 : f32]} {
    ^bb0(%e: f32, %f: f32, %a: f32):
      %p = math.fma %e, %f, %a : f32
      repro.yield %p : f32
    }
    linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%r, %s : memref<4x4xf32>, memref<4x4xf32>) outs(%u : memref<4x4xf32>) {
    ^bb0(%e: f32, %f: f32, %o: f32):
      %p = arith.subf %f, %e : f32
      linalg.yield %p : f32
    }
  }
  %v = memref.alloc() : memref<4x4xf32>
  memref.alloca_scope {
    %r = memref.alloca() : memref<4x4xf32>
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%x, %t : memref<4x4xf32>, memref<4x4xf32>) outs(%r : memref<4x4xf32>) attributes {repro.init = [0.0 : f32]} {
    ^bb0(%e: f32, %f: f32, %a: f32):
      %p = math.fma %e, %f, %a : f32
      repro.yield %p : f32
    }
    linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%r, %t : memref<4x4xf32>, memref<4x4xf32>) outs(%v : memref<4x4xf32>) {
    ^bb0(%e: f32, %f: f32, %o: f32):
      %p = arith.subf %f, %e : f32
      linalg.yield %p : f32
    }
  }
  return %u, %v : memref<4x4xf32>, memref<4x4xf32>
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#y = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (n, m)>
#turned = affine_map<(m, n) -> (n, m)>

// The dimensions of the product may have another order than those of the state.

// CHECK-LABEL: launch.plan @main
// CHECK-SAME: states(%[[S:[a-z0-9]+]]: memref<1x4x8xf32>) inputs(%[[X:[a-z0-9]+]]: memref<8x3xf32>, %[[Y:[a-z0-9]+]]: memref<3x4xf32>) outputs() arena(%{{[a-z0-9]+}}: memref<0xi8>)
// CHECK: %[[OLD:.*]] = launch.view %[[S]][0] : memref<1x4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
// CHECK: %[[NEW:.*]] = launch.view %[[S]][0] : memref<1x4x8xf32> to memref<4x8xf32>
// CHECK: launch.dispatch @kernel_0(%[[X]], %[[Y]], %[[OLD]], %[[NEW]])
// CHECK-NOT: launch.dispatch
func.func @main(%s: memref<1x4x8xf32>, %x: memref<8x3xf32>, %y: memref<3x4xf32>) -> memref<1x4x8xf32> attributes {repro.num_state = 1 : i64} {
  %new = memref.alloc() : memref<1x4x8xf32>
  %old = memref.reinterpret_cast %s to offset: [0], sizes: [8, 4], strides: [1, 8] : memref<1x4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
  %v = memref.reinterpret_cast %new to offset: [0], sizes: [4, 8], strides: [8, 1] : memref<1x4x8xf32> to memref<4x8xf32>
  memref.alloca_scope {
    %r = memref.alloca() : memref<4x8xf32>
    repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#x, #y, #z] iterators [parallel, parallel, reduction] ins(%x, %y : memref<8x3xf32>, memref<3x4xf32>) outs(%r : memref<4x8xf32>) attributes {repro.init = [0.0 : f32]} {
    ^bb0(%e: f32, %f: f32, %a: f32):
      %p = math.fma %e, %f, %a : f32
      repro.yield %p : f32
    }
    linalg.generic {indexing_maps = [#turned, affine_map<(m, n) -> (m, n)>, #turned], iterator_types = ["parallel", "parallel"]} ins(%r, %old : memref<4x8xf32>, memref<8x4xf32, strided<[1, 8]>>) outs(%v : memref<4x8xf32>) {
    ^bb0(%e: f32, %f: f32, %o: f32):
      %p = arith.subf %f, %e : f32
      linalg.yield %p : f32
    }
  }
  return %new : memref<1x4x8xf32>
}

// -----

// A scatter into a copy of a state writes the state directly, without the copy.

// CHECK-NOT: memref.copy
// CHECK-LABEL: launch.plan @main
// CHECK-SAME: states(%[[S:[a-z0-9]+]]: memref<16xf32>)
// CHECK-SAME: arena(%{{.*}}: memref<0xi8>)
// CHECK-NEXT: launch.dispatch @kernel_1(%{{.*}}, %{{.*}}, %[[S]])
// CHECK-NEXT: }
func.func @main(%s: memref<16xf32>, %u: memref<2xf32>, %at: memref<2x1xi64>) -> memref<16xf32>
    attributes {repro.num_state = 1 : i64} {
  %n = memref.alloc() : memref<16xf32>
  memref.copy %s, %n : memref<16xf32> to memref<16xf32>
  repro.scatter replace ins(%u, %at : memref<2xf32>, memref<2x1xi64>) outs(%n : memref<16xf32>)
  return %n : memref<16xf32>
}

// -----

// The output is the old state, which is therefore copied before the scatter.

// CHECK-LABEL: launch.plan @main
// CHECK: launch.dispatch @kernel_0(%{{.*}}, %[[NEW:.*]])
// CHECK: launch.dispatch @kernel_1(%{{.*}}, %{{.*}}, %[[NEW]])
func.func @main(%s: memref<16xf32>, %u: memref<2xf32>, %at: memref<2x1xi64>) -> (memref<16xf32>, memref<16xf32>)
    attributes {repro.num_state = 1 : i64} {
  %n = memref.alloc() : memref<16xf32>
  memref.copy %s, %n : memref<16xf32> to memref<16xf32>
  repro.scatter replace ins(%u, %at : memref<2xf32>, memref<2x1xi64>) outs(%n : memref<16xf32>)
  return %n, %s : memref<16xf32>, memref<16xf32>
}
