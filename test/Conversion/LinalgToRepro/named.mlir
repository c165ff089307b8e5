// (F5) Every named reduction of linalg becomes a fold; quantized reductions become integer folds of any order.
// RUN: %repro-opt --convert-linalg-to-repro %s | FileCheck %s

// CHECK: func.func @vectors
func.func @vectors(%a: tensor<8x16xf32>, %x: tensor<16xf32>, %y: tensor<8xf32>, %s: tensor<f32>) -> (tensor<8xf32>, tensor<16xf32>, tensor<f32>) {
  // CHECK: repro.fold maps
  %0 = linalg.matvec ins(%a, %x : tensor<8x16xf32>, tensor<16xf32>) outs(%y : tensor<8xf32>) -> tensor<8xf32>
  // CHECK: repro.fold maps
  %1 = linalg.vecmat ins(%y, %a : tensor<8xf32>, tensor<8x16xf32>) outs(%x : tensor<16xf32>) -> tensor<16xf32>
  // There is no parallel dimension.
  // CHECK: repro.fold maps
  // CHECK: math.fma
  %2 = linalg.dot ins(%x, %x : tensor<16xf32>, tensor<16xf32>) outs(%s : tensor<f32>) -> tensor<f32>
  return %0, %1, %2 : tensor<8xf32>, tensor<16xf32>, tensor<f32>
}

// CHECK: func.func @convolutions
func.func @convolutions(%x1: tensor<2x3x9xf32>, %w1: tensor<4x3x3xf32>, %o1: tensor<2x4x7xf32>,
                        %x3: tensor<2x3x5x5x5xf32>, %w3: tensor<4x3x3x3x3xf32>, %o3: tensor<2x4x3x3x3xf32>,
                        %xd: tensor<2x9x9x3xf32>, %wd: tensor<3x3x3xf32>, %od: tensor<2x7x7x3xf32>)
    -> (tensor<2x4x7xf32>, tensor<2x4x3x3x3xf32>, tensor<2x7x7x3xf32>) {
  // CHECK: repro.fold maps
  // CHECK-SAME: iterators [parallel, parallel, parallel, reduction, reduction]
  %0 = linalg.conv_1d_ncw_fcw {strides = dense<1> : tensor<1xi64>, dilations = dense<1> : tensor<1xi64>}
      ins(%x1, %w1 : tensor<2x3x9xf32>, tensor<4x3x3xf32>) outs(%o1 : tensor<2x4x7xf32>) -> tensor<2x4x7xf32>
  // CHECK: repro.fold maps
  // CHECK-SAME: iterators [parallel, parallel, parallel, parallel, parallel, reduction, reduction, reduction, reduction]
  %1 = linalg.conv_3d_ncdhw_fcdhw {strides = dense<1> : tensor<3xi64>, dilations = dense<1> : tensor<3xi64>}
      ins(%x3, %w3 : tensor<2x3x5x5x5xf32>, tensor<4x3x3x3x3xf32>) outs(%o3 : tensor<2x4x3x3x3xf32>) -> tensor<2x4x3x3x3xf32>
  // CHECK: repro.fold maps
  %2 = linalg.depthwise_conv_2d_nhwc_hwc {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%xd, %wd : tensor<2x9x9x3xf32>, tensor<3x3x3xf32>) outs(%od : tensor<2x7x7x3xf32>) -> tensor<2x7x7x3xf32>
  return %0, %1, %2 : tensor<2x4x7xf32>, tensor<2x4x3x3x3xf32>, tensor<2x7x7x3xf32>
}

// CHECK: func.func @quantized
func.func @quantized(%a: tensor<4x8xi8>, %b: tensor<8x16xi8>, %za: i32, %zb: i32, %c: tensor<4x16xi32>) -> tensor<4x16xi32> {
  // CHECK: repro.fold maps
  // CHECK-COUNT-2: arith.subi
  // CHECK: arith.muli
  // CHECK: arith.addi
  %0 = linalg.quantized_matmul ins(%a, %b, %za, %zb : tensor<4x8xi8>, tensor<8x16xi8>, i32, i32) outs(%c : tensor<4x16xi32>) -> tensor<4x16xi32>
  return %0 : tensor<4x16xi32>
}

// CHECK: func.func @pooling
func.func @pooling(%x: tensor<2x3x8x8xf32>, %w: tensor<2x2xf32>, %o: tensor<2x3x4x4xf32>) -> (tensor<2x3x4x4xf32>) {
  // CHECK: repro.fold maps
  // CHECK: arith.maximumf
  %0 = linalg.pooling_nchw_max {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%x, %w : tensor<2x3x8x8xf32>, tensor<2x2xf32>) outs(%o : tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}

// CHECK: func.func @reduce
func.func @reduce(%x: tensor<4x8xf64>, %o: tensor<4xf64>) -> tensor<4xf64> {
  // CHECK: repro.fold maps
  // CHECK: arith.mulf %{{.*}}, %{{.*}} : f64
  %0 = linalg.reduce { arith.mulf } ins(%x : tensor<4x8xf64>) outs(%o : tensor<4xf64>) dimensions = [1]
  return %0 : tensor<4xf64>
}
