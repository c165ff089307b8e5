// (R1) Calls of the random declarations become repro.random; what says nothing about the bits goes.
// RUN: %repro-opt --convert-func-to-repro %s | FileCheck %s

// CHECK: module {
// CHECK-NOT: private
// CHECK: func.func @main(%[[SEED:[a-z0-9]+]]: tensor<i64> {repro.name = "seed"}, %[[STEP:[a-z0-9]+]]: tensor<i64>)
// CHECK-SAME: -> (tensor<i64> {repro.name = "seed"}, tensor<2x3xf32>, tensor<4xi64>) attributes {repro.num_state = 1 : i64}
// CHECK-NEXT: %[[S:.*]] = tensor.extract %[[SEED]][] : tensor<i64>
// CHECK-NEXT: %[[N:.*]] = tensor.extract %[[STEP]][] : tensor<i64>
// CHECK-NEXT: %[[E:.*]] = tensor.empty() : tensor<2x3xf32>
// CHECK-NEXT: %[[U:.*]] = repro.random uniform site = 7 ins(%[[S]], %[[N]] : i64, i64) outs(%[[E]] : tensor<2x3xf32>)
// CHECK: %[[B:.*]] = repro.random bits site = 8
// CHECK-SAME: -> tensor<4xi32>
// CHECK: %[[W:.*]] = linalg.generic
// CHECK-SAME: ins(%[[B]] : tensor<4xi32>)
// CHECK: arith.extui %{{.*}} : i32 to i64
// CHECK: return %[[SEED]], %[[U]], %[[W]]
module @name attributes {torch.debug_module_name = "step"} {
  func.func private @repro.random_uniform.7(tensor<i64>, tensor<i64>) -> tensor<2x3xf32>
      attributes {repro.site = 7 : i64, repro.distribution = "uniform"}
  func.func private @repro.random_bits.8(tensor<i64>, tensor<i64>) -> tensor<4xi64>
      attributes {repro.site = 8 : i64, repro.distribution = "bits"}
  func.func @main(%seed: tensor<i64> {repro.name = "seed", torch.type_bound = i64}, %step: tensor<i64>)
      -> (tensor<i64> {repro.name = "seed"}, tensor<2x3xf32>, tensor<4xi64>)
      attributes {repro.num_state = 1 : i64, torch.assume_strict_symbolic_shapes} {
    %0 = func.call @repro.random_uniform.7(%seed, %step) : (tensor<i64>, tensor<i64>) -> tensor<2x3xf32>
    %1 = func.call @repro.random_bits.8(%seed, %step) : (tensor<i64>, tensor<i64>) -> tensor<4xi64>
    return %seed, %0, %1 : tensor<i64>, tensor<2x3xf32>, tensor<4xi64>
  }
}
