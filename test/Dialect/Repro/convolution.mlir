// (K2) Convolutions of any rank in custom syntax, generic syntax and bytecode.
// RUN: %repro-opt %s | %repro-opt | FileCheck %s
// RUN: %repro-opt --mlir-print-op-generic %s | %repro-opt | FileCheck %s
// RUN: %repro-opt --emit-bytecode %s | %repro-opt | FileCheck %s

// CHECK-LABEL: func @K2_volume
// CHECK: repro.convolution strides = [1, 2, 3] padding_low = [1, 0, -1] padding_high = [1, 2, -2]
// CHECK-SAME: input_dilation = [2, 1, 1] kernel_dilation = [1, 2, 1] window_reversal = [true, false, false]
// CHECK-SAME: feature_groups = 2 batch_groups = 1
// CHECK-SAME: ins(%{{.*}}, %{{.*}} : tensor<2x4x5x6x9xbf16>, tensor<6x2x3x2x2xf32>)
// CHECK-SAME: outs(%{{.*}} : tensor<2x6x9x3x2xf16>) -> tensor<2x6x9x3x2xf16>
func.func @K2_volume(%x: tensor<2x4x5x6x9xbf16>, %w: tensor<6x2x3x2x2xf32>, %o: tensor<2x6x9x3x2xf16>) -> tensor<2x6x9x3x2xf16> {
  %0 = repro.convolution strides = [1, 2, 3] padding_low = [1, 0, -1] padding_high = [1, 2, -2]
      input_dilation = [2, 1, 1] kernel_dilation = [1, 2, 1] window_reversal = [true, false, false]
      feature_groups = 2 batch_groups = 1
      ins(%x, %w : tensor<2x4x5x6x9xbf16>, tensor<6x2x3x2x2xf32>)
      outs(%o : tensor<2x6x9x3x2xf16>) -> tensor<2x6x9x3x2xf16>
  return %0 : tensor<2x6x9x3x2xf16>
}

// CHECK-LABEL: func @K2_batch_groups
// CHECK: repro.convolution {{.*}} feature_groups = 1 batch_groups = 3 {{.*}} -> tensor<2x9x3xi32>
func.func @K2_batch_groups(%x: tensor<6x4x5xi32>, %w: tensor<9x4x3xi32>, %o: tensor<2x9x3xi32>) -> tensor<2x9x3xi32> {
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0] input_dilation = [1] kernel_dilation = [1]
      window_reversal = [false] feature_groups = 1 batch_groups = 3
      ins(%x, %w : tensor<6x4x5xi32>, tensor<9x4x3xi32>) outs(%o : tensor<2x9x3xi32>) -> tensor<2x9x3xi32>
  return %0 : tensor<2x9x3xi32>
}

// CHECK-LABEL: func @K2_without_window
// CHECK: repro.convolution strides = [] {{.*}} -> tensor<2x6xf64>
func.func @K2_without_window(%x: tensor<2x4xf64>, %w: tensor<6x4xf32>, %o: tensor<2x6xf64>) -> tensor<2x6xf64> {
  %0 = repro.convolution strides = [] padding_low = [] padding_high = [] input_dilation = [] kernel_dilation = []
      window_reversal = [] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4xf64>, tensor<6x4xf32>) outs(%o : tensor<2x6xf64>) -> tensor<2x6xf64>
  return %0 : tensor<2x6xf64>
}
