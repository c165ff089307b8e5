// (R2) Distributions become arithmetic on uniform numbers or bits of the same site.
// RUN: %repro-opt --repro-decompose-distributions %s | FileCheck %s

// CHECK-LABEL: @R2_bernoulli
// CHECK: %[[U:.*]] = repro.random uniform site = 4 ins(%arg0, %arg1 : i64, i64) outs(%{{.*}} : tensor<4x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[U]] : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x8xi1>)
// CHECK: %[[P:.*]] = arith.constant 0.899999976 : f32
// CHECK: arith.cmpf olt, %{{.*}}, %[[P]] : f32
func.func @R2_bernoulli(%seed: i64, %step: i64) -> tensor<4x8xi1> {
  %e = tensor.empty() : tensor<4x8xi1>
  %0 = repro.random bernoulli probability = 0.9 site = 4 ins(%seed, %step : i64, i64) outs(%e : tensor<4x8xi1>) -> tensor<4x8xi1>
  return %0 : tensor<4x8xi1>
}

// CHECK-LABEL: @R2_randint
// CHECK: %[[B:.*]] = repro.random bits site = 5 {{.*}} -> tensor<8xi32>
// CHECK: linalg.generic {{.*}} ins(%[[B]] : tensor<8xi32>) outs(%{{.*}} : tensor<8xi64>)
// CHECK: %[[W:.*]] = arith.extui %{{.*}} : i32 to i64
// CHECK: %[[R:.*]] = arith.constant 10 : i64
// CHECK: %[[P:.*]] = arith.muli %[[W]], %[[R]] : i64
// CHECK: %[[S:.*]] = arith.constant 32 : i64
// CHECK: arith.shrui %[[P]], %[[S]] : i64
func.func @R2_randint(%seed: i64, %step: i64) -> tensor<8xi64> {
  %e = tensor.empty() : tensor<8xi64>
  %0 = repro.random randint range = 10 site = 5 ins(%seed, %step : i64, i64) outs(%e : tensor<8xi64>) -> tensor<8xi64>
  return %0 : tensor<8xi64>
}

// CHECK-LABEL: @R2_randint_bits
// CHECK: %[[W:.*]] = arith.extui %{{.*}} : i32 to i64
// CHECK-NEXT: linalg.yield %[[W]]
func.func @R2_randint_bits(%seed: i64, %step: i64) -> tensor<8xi64> {
  %e = tensor.empty() : tensor<8xi64>
  %0 = repro.random randint range = 4294967296 site = 5 ins(%seed, %step : i64, i64) outs(%e : tensor<8xi64>) -> tensor<8xi64>
  return %0 : tensor<8xi64>
}

// CHECK-LABEL: @R2_normal
// CHECK: %[[U:.*]] = repro.random uniform site = 6 {{.*}} -> tensor<3x5x2xf32>
// CHECK: %[[S1:.*]] = tensor.extract_slice %[[U]][0, 0, 0] [3, 5, 1] [1, 1, 1]
// CHECK: %[[U1:.*]] = tensor.collapse_shape %[[S1]] {{\[\[}}0], [1, 2]]
// CHECK: %[[S2:.*]] = tensor.extract_slice %[[U]][0, 0, 1] [3, 5, 1] [1, 1, 1]
// CHECK: %[[U2:.*]] = tensor.collapse_shape %[[S2]]
// CHECK: linalg.generic {{.*}} ins(%[[U1]], %[[U2]] : tensor<3x5xf32>, tensor<3x5xf32>)
// CHECK: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[SUB:.*]] = arith.subf %{{.*}}, %[[X]] : f32
// CHECK: %[[LOG:.*]] = repro.log %[[SUB]] : f32
// CHECK: %[[M:.*]] = arith.mulf %[[LOG]], %{{.*}} : f32
// CHECK: %[[RADIUS:.*]] = math.sqrt %[[M]] : f32
// CHECK: %[[TURN:.*]] = arith.constant 6.28318548 : f32
// CHECK: %[[ANGLE:.*]] = arith.mulf %[[Y]], %[[TURN]] : f32
// CHECK: %[[COS:.*]] = repro.cos %[[ANGLE]] : f32
// CHECK: arith.mulf %[[RADIUS]], %[[COS]] : f32
func.func @R2_normal(%seed: i64, %step: i64) -> tensor<3x5xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = repro.random normal site = 6 ins(%seed, %step : i64, i64) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// CHECK-LABEL: @R2_normal_scalar
// CHECK: tensor.extract_slice %{{.*}}[1] [1] [1] : tensor<2xf32> to tensor<1xf32>
// CHECK: tensor.collapse_shape %{{.*}} [] : tensor<1xf32> into tensor<f32>
func.func @R2_normal_scalar(%seed: i64, %step: i64) -> tensor<f32> {
  %e = tensor.empty() : tensor<f32>
  %0 = repro.random normal site = 6 ins(%seed, %step : i64, i64) outs(%e : tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: @R2_normal_empty
// CHECK: repro.random uniform site = 6 {{.*}} -> tensor<0x3xf32>
func.func @R2_normal_empty(%seed: i64, %step: i64) -> tensor<0x3xf32> {
  %e = tensor.empty() : tensor<0x3xf32>
  %0 = repro.random normal site = 6 ins(%seed, %step : i64, i64) outs(%e : tensor<0x3xf32>) -> tensor<0x3xf32>
  return %0 : tensor<0x3xf32>
}

// CHECK-LABEL: @kept
// CHECK: repro.random uniform site = 0
// CHECK-NOT: linalg.generic
func.func @kept(%seed: i64, %step: i64) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = repro.random uniform site = 0 ins(%seed, %step : i64, i64) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
