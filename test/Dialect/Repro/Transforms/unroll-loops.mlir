// RUN: %repro-opt --allow-unregistered-dialect --repro-unroll-loops %s -split-input-file | FileCheck %s

// The example of the pass.
// CHECK-LABEL: func.func @main(%arg0: i32)
// CHECK-NOT: scf.for
// CHECK: %[[A:.*]] = arith.muli %arg0, %arg0
// CHECK: %[[B:.*]] = arith.muli %[[A]], %[[A]]
// CHECK-NEXT: return %[[B]]
func.func @main(%x: i32) -> i32 {
  %begin = arith.constant 0 : index
  %end = arith.constant 2 : index
  %step = arith.constant 1 : index
  %r = scf.for %i = %begin to %end step %step iter_args(%v = %x) -> (i32) {
    %n = arith.muli %v, %v : i32
    scf.yield %n : i32
  }
  return %r : i32
}

// -----

// Counters are constants, so slices have static positions. Bounds are negative or unsigned; steps exceed 1.
// CHECK-LABEL: func.func @counters
// CHECK: tensor.extract_slice %arg0[%[[A:.*]]] [1] [1]
// CHECK: tensor.extract_slice %arg0[%[[B:.*]]] [1] [1]
// CHECK-NOT: extract_slice
func.func @counters(%x: tensor<8xf32>) -> tensor<1xf32> {
  %m1 = arith.constant -1 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %e = tensor.empty() : tensor<1xf32>
  %r = scf.for %i = %m1 to %c3 step %c3 iter_args(%v = %e) -> (tensor<1xf32>) {
    %j = arith.addi %i, %c1 : index
    %s = tensor.extract_slice %x[%j] [1] [1] : tensor<8xf32> to tensor<1xf32>
    scf.yield %s : tensor<1xf32>
  }
  // The loop starts at the largest unsigned number: no iteration.
  %n = scf.for unsigned %i = %m1 to %c3 step %c1 iter_args(%v = %r) -> (tensor<1xf32>) {
    %s = tensor.extract_slice %x[0] [1] [1] : tensor<8xf32> to tensor<1xf32>
    scf.yield %s : tensor<1xf32>
  }
  return %n : tensor<1xf32>
}

// -----

// The counter reaches the end of its type.
// CHECK-LABEL: func.func @end_of_type
// CHECK-COUNT-2: arith.muli
// CHECK-NOT: arith.muli
func.func @end_of_type(%x: i8) -> i8 {
  %c100 = arith.constant 100 : i8
  %c127 = arith.constant 127 : i8
  %c20 = arith.constant 20 : i8
  %r = scf.for %i = %c100 to %c127 step %c20 iter_args(%v = %x) -> (i8) : i8 {
    %n = arith.muli %v, %v : i8
    scf.yield %n : i8
  }
  return %r : i8
}

// -----

// Conditions depend on small tensors: generics, sums of integers, fills and f32 by docs/reference/numerics.md.
// CHECK-LABEL: func.func @tensors
// CHECK-COUNT-3: repro.sin
// CHECK-NOT: repro.sin
#s = affine_map<() -> ()>
#v = affine_map<(d0) -> (d0)>
#o = affine_map<(d0) -> ()>
func.func @tensors(%x: f32) -> f32 {
  %zero = arith.constant dense<0> : tensor<4xi32>
  %third = arith.constant 0.3 : f32
  %none = arith.constant 0.0 : f32
  %most = arith.constant 0.75 : f32
  %c7 = arith.constant 7 : i32
  %c0 = arith.constant 0 : i32
  %r:3 = scf.while (%n = %zero, %t = %none, %y = %x) : (tensor<4xi32>, f32, f32) -> (tensor<4xi32>, f32, f32) {
    %e = tensor.empty() : tensor<i32>
    %f = linalg.fill ins(%c0 : i32) outs(%e : tensor<i32>) -> tensor<i32>
    %sum = linalg.generic {indexing_maps = [#v, #o], iterator_types = ["reduction"]}
        ins(%n : tensor<4xi32>) outs(%f : tensor<i32>) {
    ^bb0(%a: i32, %b: i32):
      %c = arith.addi %a, %b : i32
      linalg.yield %c : i32
    } -> tensor<i32>
    %at = tensor.extract %sum[] : tensor<i32>
    // Values: 0, 1 + 2 + 3, 12 ...; 0.0, 0.3, 0.6, 0.90000004
    %few = arith.cmpi sle, %at, %c7 : i32
    %early = arith.cmpf olt, %t, %most : f32
    %any = arith.ori %few, %early : i1
    scf.condition(%any) %n, %t, %y : tensor<4xi32>, f32, f32
  } do {
  ^bb0(%n: tensor<4xi32>, %t: f32, %y: f32):
    %e = tensor.empty() : tensor<4xi32>
    %m = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
        ins(%n : tensor<4xi32>) outs(%e : tensor<4xi32>) {
    ^bb0(%a: i32, %b: i32):
      %i = linalg.index 0 : index
      %j = arith.index_cast %i : index to i32
      %c = arith.addi %a, %j : i32
      linalg.yield %c : i32
    } -> tensor<4xi32>
    %u = arith.addf %t, %third : f32
    %z = repro.sin %y : f32
    scf.yield %m, %u, %z : tensor<4xi32>, f32, f32
  }
  return %r#2 : f32
}

// -----

// If a condition is known, one branch remains, checks included; if it depends on values, all branches remain.
// CHECK-LABEL: func.func @branches(%arg0: i1, %arg1: tensor<4xf32>, %arg2: f32, %arg3: index)
// CHECK: cf.assert %arg0, "taken"
// CHECK-NOT: cf.assert
// CHECK: %[[A:.*]] = repro.sin %arg2
// CHECK: %[[B:.*]] = repro.cos %arg2
// CHECK: %[[S:.*]] = arith.select %arg0, %[[A]], %[[B]]
// CHECK: %[[C:.*]] = tensor.from_elements %arg0 : tensor<i1>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[C]], %arg1, %{{.*}} : tensor<i1>, tensor<4xf32>, tensor<4xf32>)
// CHECK: arith.select
// CHECK: %[[IS8:.*]] = arith.cmpi eq, %arg3, %{{.*}} : index
// CHECK: %[[LAST:.*]] = arith.select %[[IS8]]
// CHECK: %[[IS3:.*]] = arith.cmpi eq, %arg3, %{{.*}} : index
// CHECK: %[[FIRST:.*]] = arith.select %[[IS3]], %{{.*}}, %[[LAST]]
// CHECK: return %[[S]], %[[T]], %[[FIRST]]
func.func @branches(%p: i1, %x: tensor<4xf32>, %y: f32, %i: index) -> (f32, tensor<4xf32>, f32) {
  %true = arith.constant true
  %c1 = arith.constant 1 : index
  scf.if %true {
    cf.assert %p, "taken"
  } else {
    cf.assert %p, "other"
  }
  scf.index_switch %c1
  case 2 {
    cf.assert %p, "case"
    scf.yield
  }
  default {
  }
  %r:2 = scf.if %p -> (f32, tensor<4xf32>) {
    %s = repro.sin %y : f32
    scf.yield %s, %x : f32, tensor<4xf32>
  } else {
    %s = repro.cos %y : f32
    %z = arith.constant dense<0.0> : tensor<4xf32>
    scf.yield %s, %z : f32, tensor<4xf32>
  }
  %k = scf.index_switch %i -> f32
  case 3 {
    %s = repro.exp %y : f32
    scf.yield %s : f32
  }
  case 8 {
    %s = repro.log %y : f32
    scf.yield %s : f32
  }
  default {
    scf.yield %y : f32
  }
  return %r#0, %r#1, %k : f32, tensor<4xf32>, f32
}

// -----

// A read that is always in range needs no check.
// CHECK-LABEL: func.func @gather
// CHECK: tensor.extract
// CHECK: arith.select
#m = affine_map<(d0) -> (d0)>
func.func @gather(%p: i1, %x: tensor<4xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {
  %c0 = arith.constant 0 : i64
  %c3 = arith.constant 3 : i64
  %e = tensor.empty() : tensor<2xf32>
  %z = arith.constant dense<0.0> : tensor<2xf32>
  %r = scf.if %p -> (tensor<2xf32>) {
    %g = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
        ins(%i : tensor<2xi64>) outs(%e : tensor<2xf32>) {
    ^bb0(%a: i64, %o: f32):
      // The index is clamped, as by StableHLO's gather.
      %b = arith.maxsi %a, %c0 : i64
      %c = arith.minsi %b, %c3 : i64
      %j = arith.index_cast %c : i64 to index
      %v = tensor.extract %x[%j] : tensor<4xf32>
      linalg.yield %v : f32
    } -> tensor<2xf32>
    scf.yield %g : tensor<2xf32>
  } else {
    scf.yield %z : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}

// -----

// StableHLO's loops and branches, with calls in them. An index without a branch selects the last branch.
// CHECK-LABEL: func.func @stablehlo(%arg0: f32, %arg1: tensor<i1>, %arg2: tensor<f32>)
// CHECK-COUNT-2: repro.sin
// CHECK-NOT: repro.sin
// CHECK: repro.cos
// CHECK: %[[P:.*]] = tensor.extract %arg1[]
// CHECK: %[[Q:.*]] = tensor.from_elements %[[P]]
// CHECK: linalg.generic {{.*}} ins(%[[Q]], %arg2
// CHECK-NOT: func.func
#s = affine_map<() -> ()>
func.func @stablehlo(%x: f32, %p: tensor<i1>, %t: tensor<f32>) -> (f32, f32, tensor<f32>) {
  %zero = arith.constant dense<0> : tensor<i32>
  %nine = arith.constant dense<9> : tensor<i32>
  %r:2 = "stablehlo.while"(%zero, %x) ({
  ^bb0(%n: tensor<i32>, %y: f32):
    %c = call @below(%n) : (tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%n: tensor<i32>, %y: f32):
    %m = call @next(%n) : (tensor<i32>) -> tensor<i32>
    %z = repro.sin %y : f32
    "stablehlo.return"(%m, %z) : (tensor<i32>, f32) -> ()
  }) : (tensor<i32>, f32) -> (tensor<i32>, f32)
  %k = "stablehlo.case"(%nine) ({
    %z = repro.exp %x : f32
    "stablehlo.return"(%z) : (f32) -> ()
  }, {
    %z = repro.cos %x : f32
    "stablehlo.return"(%z) : (f32) -> ()
  }) : (tensor<i32>) -> f32
  %i = "stablehlo.if"(%p) ({
    "stablehlo.return"(%t) : (tensor<f32>) -> ()
  }, {
    %z = tensor.from_elements %x : tensor<f32>
    "stablehlo.return"(%z) : (tensor<f32>) -> ()
  }) : (tensor<i1>) -> tensor<f32>
  return %r#1, %k, %i : f32, f32, tensor<f32>
}
func.func private @below(%n: tensor<i32>) -> tensor<i1> {
  %e = tensor.empty() : tensor<i1>
  %c2 = arith.constant 2 : i32
  %r = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%n : tensor<i32>) outs(%e : tensor<i1>) {
  ^bb0(%a: i32, %b: i1):
    %c = arith.cmpi slt, %a, %c2 : i32
    linalg.yield %c : i1
  } -> tensor<i1>
  return %r : tensor<i1>
}
func.func private @next(%n: tensor<i32>) -> tensor<i32> {
  %e = tensor.empty() : tensor<i32>
  %c1 = arith.constant 1 : i32
  %r = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%n : tensor<i32>) outs(%e : tensor<i32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %c1 : i32
    linalg.yield %c : i32
  } -> tensor<i32>
  return %r : tensor<i32>
}

// -----

// A function without control flow does not change, nor do its constants; unused private functions are removed.
// CHECK-NOT: @unused
// CHECK-LABEL: func.func @straight
// CHECK: arith.addi
func.func @straight() -> i32 {
  %c1 = arith.constant 1 : i32
  %r = arith.addi %c1, %c1 : i32
  return %r : i32
}
func.func private @unused() {
  call @as_well() : () -> ()
  return
}
func.func private @as_well() {
  return
}
