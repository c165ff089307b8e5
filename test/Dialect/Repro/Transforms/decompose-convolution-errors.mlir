// (K2) All extents must be known when a convolution is decomposed.
// RUN: %repro-opt --pass-pipeline='builtin.module(func.func(repro-decompose-convolution))' %s -split-input-file \
// RUN:     -verify-diagnostics

func.func @K2_unknown_batch(%x: tensor<?x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<?x6x7xf32>) -> tensor<?x6x7xf32> {
  // expected-error @+1 {{(K2) expected tensors of static shape, got 'tensor<?x4x9xf32>'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<?x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<?x6x7xf32>) -> tensor<?x6x7xf32>
  return %0 : tensor<?x6x7xf32>
}
