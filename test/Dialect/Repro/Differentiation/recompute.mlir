// (J5) Gradients read recomputed values of the operations that `recompute` matches, after barriers (V5).
// RUN: %repro-opt --repro-differentiate="results=0 arguments=0 recompute=layer?1,exp" --mlir-print-local-scope %s | FileCheck %s
// RUN: not %repro-opt --repro-differentiate="results=0 arguments=0 recompute=layer?1,other*" %s 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not %repro-opt --repro-differentiate="results=0 arguments=0 recompute=[" %s 2>&1 | FileCheck %s --check-prefix=GLOB
// OTHER: error: (J5) no operation comes from 'other*'
// GLOB: error: (J5) '[': invalid glob pattern

#v = affine_map<(d0) -> (d0)>

// CHECK: func.func @main(%[[X:.*]]: tensor<4xf32>, %[[G:.*]]: tensor<4xf32>)
// CHECK: %[[KEPT:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: repro.sin
// CHECK: linalg.generic {{.*}} ins(%[[KEPT]] :
// CHECK: repro.exp
// CHECK: %[[LAST:.*]] = linalg.generic
// CHECK: repro.tanh
// The gradient of the tanh reads the exponential, which is recomputed from a stored value.
// CHECK: %[[BARRIER:.*]] = repro.barrier %[[KEPT]] : tensor<4xf32>
// CHECK: %[[AGAIN:.*]] = linalg.generic {{.*}} ins(%[[BARRIER]] :
// CHECK: repro.exp
// CHECK: linalg.generic {{.*}} ins(%[[AGAIN]], %[[G]] :
// `recompute` does not match the sine, whose gradient reads the argument.
// CHECK-NOT: repro.barrier
// CHECK: ins(%[[X]],
// CHECK: return %[[LAST]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {repro.num_state = 0 : i64} {
  %empty = tensor.empty() : tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %out: f32):
    %0 = repro.sin %e : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32> loc("layer 0")
  %p = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
      ins(%s : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %out: f32):
    %0 = repro.exp %e : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32> loc(fused["layer 1", "exp"])
  %t = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
      ins(%p : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %out: f32):
    %0 = repro.tanh %e : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32> loc("layer 2")
  return %t : tensor<4xf32>
}
