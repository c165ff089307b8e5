// RUN: %repro-opt %s --repro-assign-owners="ranks=2 rank=0 arguments=2,3,4,5" | FileCheck %s --check-prefixes=ALL,FIRST
// RUN: %repro-opt %s --repro-assign-owners="ranks=2 rank=1 arguments=2,3,4,5" | FileCheck %s --check-prefixes=ALL,SECOND
// RUN: %repro-opt %s --repro-assign-owners="ranks=3 rank=2 arguments=2,3,4,5" --repro-outline-segments \
// RUN:   | FileCheck %s --check-prefix=IDLE
// RUN: %repro-opt %s --repro-assign-owners="ranks=1 rank=0 arguments=2,3,4,5" | FileCheck %s --check-prefix=ALONE

// (T3) Two parameters, each with a momentum and a gradient, which have the same owner. The sums of both gradients are
// single elements, which both ranks need; the parameters are whole on both ranks.

// ALL: func.func @main(%[[P:.*]]: tensor<5xf32>, %[[Q:.*]]: tensor<3xf32>,
// ALL-SAME: %[[M:.*]]: tensor<5xf32> {repro.owner = 0 : i64}, %[[N:.*]]: tensor<3xf32> {repro.owner = 1 : i64},
// ALL-SAME: %[[G:.*]]: tensor<5xf32> {repro.owner = 0 : i64}, %[[H:.*]]: tensor<3xf32> {repro.owner = 1 : i64})

// FIRST: %[[A:.*]] = repro.fold {{.*}} ins(%[[G]] : tensor<5xf32>)
// FIRST-NOT: repro.fold
// FIRST: %[[AW:.*]] = repro.broadcast owner = 0 stage = 0 of %[[A]] : tensor<f32> -> tensor<f32>
// FIRST: %[[BW:.*]] = repro.broadcast owner = 1 stage = 0 -> tensor<f32>
// FIRST: %[[NORM:.*]] = linalg.generic {{.*}} ins(%[[AW]], %[[BW]] : tensor<f32>, tensor<f32>)
// FIRST: %[[M1:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[G]], %[[NORM]] :
// FIRST: %[[P1:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[M1]] :
// FIRST: %[[PW:.*]] = repro.broadcast owner = 0 stage = 1 of %[[P1]] : tensor<5xf32> -> tensor<5xf32>
// FIRST: %[[QW:.*]] = repro.broadcast owner = 1 stage = 1 -> tensor<3xf32>
// FIRST: return %[[PW]], %[[QW]], %[[M1]], %[[N]] :

// SECOND: repro.broadcast owner = 0 stage = 0 -> tensor<f32>
// SECOND: repro.broadcast owner = 1 stage = 0 of %{{.*}} : tensor<f32> -> tensor<f32>
// SECOND: %[[N1:.*]] = linalg.generic {{.*}} ins(%[[N]], %[[H]],
// SECOND: %[[PW:.*]] = repro.broadcast owner = 0 stage = 1 -> tensor<5xf32>
// SECOND: %[[QW:.*]] = repro.broadcast owner = 1 stage = 1 of %{{.*}} : tensor<3xf32> -> tensor<3xf32>
// SECOND: return %[[PW]], %[[QW]], %[[M]], %[[N1]] :

// A rank that owns nothing takes part in every exchange.

// IDLE: func.func @main(%{{.*}}: tensor<5xf32>, %{{.*}}: tensor<3xf32>, %[[M:[a-z0-9]+]]: tensor<5xf32> {repro.owner = 0
// IDLE-SAME: %[[N:[a-z0-9]+]]: tensor<3xf32> {repro.owner = 1 : i64}, %{{[a-z0-9]+}}: tensor<5xf32> {repro.owner = 0
// IDLE-NOT: call
// IDLE: repro.broadcast owner = 0 stage = 0
// IDLE: repro.broadcast owner = 1 stage = 0
// IDLE: %[[PW:.*]] = repro.broadcast owner = 0 stage = 1
// IDLE: %[[QW:.*]] = repro.broadcast owner = 1 stage = 1
// IDLE: return %[[PW]], %[[QW]], %[[M]], %[[N]]

// ALONE-NOT: repro.owner
// ALONE-NOT: repro.broadcast

#id = affine_map<(d0) -> (d0)>
#sc = affine_map<(d0) -> ()>
#no = affine_map<() -> ()>
func.func @main(%p: tensor<5xf32>, %q: tensor<3xf32>, %m: tensor<5xf32>, %n: tensor<3xf32>, %g: tensor<5xf32>, %h: tensor<3xf32>)
    -> (tensor<5xf32>, tensor<3xf32>, tensor<5xf32>, tensor<3xf32>) attributes {repro.num_state = 4 : i64} {
  %zero = arith.constant 0.000000e+00 : f32
  %e = tensor.empty() : tensor<f32>
  %z = linalg.generic {indexing_maps = [#no], iterator_types = []} outs(%e : tensor<f32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  } -> tensor<f32>
  %a = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold> maps [#id, #sc] iterators [reduction] ins(%g : tensor<5xf32>) outs(%z : tensor<f32>) {
  ^bb0(%x: f32, %acc: f32):
    %s = arith.addf %x, %acc : f32
    repro.yield %s : f32
  } -> tensor<f32>
  %b = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold> maps [#id, #sc] iterators [reduction] ins(%h : tensor<3xf32>) outs(%z : tensor<f32>) {
  ^bb0(%x: f32, %acc: f32):
    %s = arith.addf %x, %acc : f32
    repro.yield %s : f32
  } -> tensor<f32>
  %norm = linalg.generic {indexing_maps = [#no, #no, #no], iterator_types = []} ins(%a, %b : tensor<f32>, tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %e5 = tensor.empty() : tensor<5xf32>
  %e3 = tensor.empty() : tensor<3xf32>
  %m1 = linalg.generic {indexing_maps = [#id, #id, #sc, #id], iterator_types = ["parallel"]} ins(%m, %g, %norm : tensor<5xf32>, tensor<5xf32>, tensor<f32>) outs(%e5 : tensor<5xf32>) {
  ^bb0(%x: f32, %y: f32, %c: f32, %o: f32):
    %s = arith.mulf %y, %c : f32
    %t = arith.addf %x, %s : f32
    linalg.yield %t : f32
  } -> tensor<5xf32>
  %n1 = linalg.generic {indexing_maps = [#id, #id, #sc, #id], iterator_types = ["parallel"]} ins(%n, %h, %norm : tensor<3xf32>, tensor<3xf32>, tensor<f32>) outs(%e3 : tensor<3xf32>) {
  ^bb0(%x: f32, %y: f32, %c: f32, %o: f32):
    %s = arith.mulf %y, %c : f32
    %t = arith.addf %x, %s : f32
    linalg.yield %t : f32
  } -> tensor<3xf32>
  %p1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%p, %m1 : tensor<5xf32>, tensor<5xf32>) outs(%e5 : tensor<5xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %t = arith.subf %x, %y : f32
    linalg.yield %t : f32
  } -> tensor<5xf32>
  %q1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%q, %n1 : tensor<3xf32>, tensor<3xf32>) outs(%e3 : tensor<3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %t = arith.subf %x, %y : f32
    linalg.yield %t : f32
  } -> tensor<3xf32>
  return %p1, %q1, %m1, %n1 : tensor<5xf32>, tensor<3xf32>, tensor<5xf32>, tensor<3xf32>
}
