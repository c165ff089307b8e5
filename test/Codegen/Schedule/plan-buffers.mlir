// RUN: %repro-opt %s --split-input-file --repro-outline-kernels --repro-plan-buffers | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#id = affine_map<(i) -> (i)>

// A state that is updated element by element is written in place; the output has
// its own buffer; temporaries that do not live together share the arena.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[S:[a-z0-9]+]]: memref<16xf32>, %[[X:[a-z0-9]+]]: memref<16xf32>, %[[Y:[a-z0-9]+]]: memref<16xf32> {repro.name = "y"}, %[[A:[a-z0-9]+]]: memref<128xi8>)
// CHECK-SAME: repro.plan_inputs = 1 : i64, repro.plan_outputs = 1 : i64, repro.plan_states = 1 : i64
// CHECK: %[[T0:.*]] = memref.view %[[A]][%c0{{.*}}]
// CHECK: call @kernel_0(%[[X]], %[[T0]],
// CHECK: %[[T1:.*]] = memref.view %[[A]][%c64{{.*}}]
// CHECK: call @kernel_0(%[[T0]], %[[T1]],
// CHECK: call @kernel_0(%[[T1]], %[[Y]],
// CHECK: call @kernel_1(%[[S]], %[[X]], %[[S]],
// CHECK: return{{$}}
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

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[S:[a-z0-9]+]]: memref<16xf32>, %[[A:[a-z0-9]+]]: memref<64xi8>)
// CHECK: %[[T:.*]] = memref.view %[[A]]
// CHECK: call @kernel_0(%[[S]], %[[T]],
// CHECK: call @copy_0(%[[T]], %[[S]],
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

// (E1) while a check can still fail no state is written: the update before the
// check goes to the arena. The first write looks at the error.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[S:[a-z0-9]+]]: memref<16xf32>, %[[A:[a-z0-9]+]]: memref<{{.*}}xi8>)
// CHECK: %[[T:.*]] = memref.view %[[A]]
// CHECK: call @kernel_0(%[[S]], %[[T]],
// CHECK: call @kernel_1
// CHECK: call @copy_0(%[[T]], %[[S]], {{.*}} {repro.check}
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

// States that change places: one goes through a temporary.

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[A:[a-z0-9]+]]: memref<4xf32>, %[[B:[a-z0-9]+]]: memref<4xf32>, %{{.*}}: memref<64xi8>)
// CHECK: %[[T:.*]] = memref.view
// CHECK: call @copy_0(%[[B]], %[[T]],
// CHECK: call @copy_0(%[[A]], %[[B]],
// CHECK: call @copy_0(%[[T]], %[[A]],
func.func @main(%a: memref<4xf32>, %b: memref<4xf32>) -> (memref<4xf32>, memref<4xf32>) attributes {repro.num_state = 2 : i64} {
  return %b, %a : memref<4xf32>, memref<4xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// Buffers of a kernel are `noalias` where no call shares them.

// CHECK: func.func private @kernel_0(%{{.*}}: memref<16xf32> {llvm.noalias, repro.access = "read"}, %{{.*}}: memref<16xf32> {llvm.noalias, repro.access = "write"}
// CHECK: func.func private @kernel_1(%{{.*}}: memref<16xf32> {repro.access = "read"}, %{{.*}}: memref<16xf32> {repro.access = "write"}
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
