// Fourier transforms become sums of products with sines and cosines, which have exact zeros.
// RUN: %repro-opt --convert-tosa-to-repro %s -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @real
// CHECK: linalg.generic {{.*}}"reduction", "reduction"]} ins(%arg0 : tensor<1x4x8xf32>) outs(%{{.*}} : tensor<1x4x5xf32>)
// CHECK: %[[ROW:.*]] = arith.remui
// CHECK: %[[QUARTER:.*]] = arith.constant 2.500000e-01 : f32
// CHECK: %[[EIGHTH:.*]] = arith.constant 1.250000e-01 : f32
// CHECK: %[[TURNS:.*]] = arith.addf
// CHECK: %[[COS:.*]] = math.cos
// CHECK: %[[HALVES:.*]] = arith.mulf
// CHECK: %[[WHOLE:.*]] = math.floor %[[HALVES]]
// CHECK: %[[ZERO:.*]] = arith.cmpf oeq, %[[HALVES]], %[[WHOLE]]
// CHECK: arith.select %[[ZERO]], %{{.*}}, %[[COS]]
// CHECK: linalg.generic
// CHECK: %[[SIN:.*]] = math.sin
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[SIN]]
// CHECK: arith.negf
func.func @real(%x: tensor<1x4x8xf32>) -> (tensor<1x4x5xf32>, tensor<1x4x5xf32>) {
  %r, %i = tosa.rfft2d %x : (tensor<1x4x8xf32>) -> (tensor<1x4x5xf32>, tensor<1x4x5xf32>)
  return %r, %i : tensor<1x4x5xf32>, tensor<1x4x5xf32>
}

// -----

// The inverse transform changes the sign of the sines.
// CHECK-LABEL: func.func @complex
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: linalg.generic
func.func @complex(%x: tensor<1x4x8xf32>, %y: tensor<1x4x8xf32>) -> (tensor<1x4x8xf32>, tensor<1x4x8xf32>) {
  %r, %i = tosa.fft2d %x, %y {inverse = true} : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> (tensor<1x4x8xf32>, tensor<1x4x8xf32>)
  return %r, %i : tensor<1x4x8xf32>, tensor<1x4x8xf32>
}

// -----

func.func @extents(%x: tensor<1x?x8xf32>) -> (tensor<1x?x5xf32>, tensor<1x?x5xf32>) {
  // expected-error @+1 {{'tosa.rfft2d' op expected f32 and extents that are powers of two, got 'tensor<1x?x8xf32>'}}
  %r, %i = tosa.rfft2d %x : (tensor<1x?x8xf32>) -> (tensor<1x?x5xf32>, tensor<1x?x5xf32>)
  return %r, %i : tensor<1x?x5xf32>, tensor<1x?x5xf32>
}

// -----

// Upstream expects a condition of rank 0.
// CHECK-LABEL: func.func @condition
// CHECK: %[[P:.*]] = tensor.collapse_shape %arg0 [] : tensor<1x1xi1> into tensor<i1>
// CHECK: tosa.cond_if %[[P]]
func.func @condition(%p: tensor<1x1xi1>, %x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %r = tosa.cond_if %p : tensor<1x1xi1> -> tensor<3xf32> {
    tosa.yield %x : tensor<3xf32>
  } else {
    tosa.yield %y : tensor<3xf32>
  }
  return %r : tensor<3xf32>
}

// -----

// The stride becomes a dilation of the input; a negative out_pad crops the result.
// CHECK-LABEL: func.func @transposed
// CHECK: repro.convolution strides = [1, 1] padding_low = [1, 1] padding_high = [2, 1]
// CHECK-SAME: input_dilation = [2, 1] kernel_dilation = [1, 1] window_reversal = [true, true]
// CHECK-SAME: tensor<1x8x4x5xf32>, tensor<6x8x3x2xf32>) outs(%{{.*}} : tensor<1x6x8x6xf32>)
func.func @transposed(%x: tensor<1x4x5x8xf32>, %w: tensor<6x3x2x8xf32>, %b: tensor<6xf32>) -> tensor<1x8x6x6xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %r = tosa.transpose_conv2d %x, %w, %b, %z, %z {acc_type = f32, out_pad = array<i64: -1, 0, 0, 0>, stride = array<i64: 2, 1>}
      : (tensor<1x4x5x8xf32>, tensor<6x3x2x8xf32>, tensor<6xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x8x6x6xf32>
  return %r : tensor<1x8x6x6xf32>
}
