// One test per branch of the verifier, named after the rule that it violates.
// RUN: %repro-opt %s -split-input-file -verify-diagnostics

func.func @V1_element_type(%x: tensor<2x4x9xi1>, %w: tensor<6x4x3xi1>, %o: tensor<2x6x7xi1>) -> tensor<2x6x7xi1> {
  // expected-error @+1 {{operand #0 must be ranked tensor of}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xi1>, tensor<6x4x3xi1>) outs(%o : tensor<2x6x7xi1>) -> tensor<2x6x7xi1>
  return %0 : tensor<2x6x7xi1>
}

// -----

func.func @V1_encoding(%x: tensor<2x4x9xf32, 1>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(V1) expected tensors without encoding, got 'tensor<2x4x9xf32, 1 : i64>'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32, 1>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K1_narrowed_factor(%x: tensor<2x4x9xf64>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K1) expected elements that convert exactly to 'f32', got 'f64'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf64>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K1_mixed_integers(%x: tensor<2x4x9xi8>, %w: tensor<6x4x3xi32>, %o: tensor<2x6x7xi32>) -> tensor<2x6x7xi32> {
  // expected-error @+1 {{(K1) expected elements that convert exactly to 'i32', got 'i8'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xi8>, tensor<6x4x3xi32>) outs(%o : tensor<2x6x7xi32>) -> tensor<2x6x7xi32>
  return %0 : tensor<2x6x7xi32>
}

// -----

func.func @K1_integer_factor(%x: tensor<2x4x9xi8>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K1) expected elements that convert exactly to 'f32', got 'i8'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xi8>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_rank(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected input, kernel and init of one rank of at least 2, got ranks 3, 4 and 3}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

// A tensor of rank 1 has no spatial dimensions, not -1 of them.
func.func @K2_least_rank(%x: tensor<9xf32>, %w: tensor<3xf32>, %o: tensor<7xf32>) -> tensor<7xf32> {
  // expected-error @+1 {{(K2) expected input, kernel and init of one rank of at least 2, got ranks 1, 1 and 1}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<9xf32>, tensor<3xf32>) outs(%o : tensor<7xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

func.func @K3_result_type(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf64> {
  // expected-error @+1 {{expected a result of the type of init, 'tensor<2x6x7xf32>', got 'tensor<2x6x7xf64>'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf64>
  return %0 : tensor<2x6x7xf64>
}

// -----

func.func @K2_stride_count(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected one entry of 'strides' per spatial dimension (1), got 2}}
  %0 = repro.convolution strides = [1, 1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_stride_positive(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected entries of 'strides' from 1 to 2147483647, got 0}}
  %0 = repro.convolution strides = [0] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_input_dilation_positive(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected entries of 'input_dilation' from 1 to 2147483647, got -1}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [-1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_kernel_dilation_bounded(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected entries of 'kernel_dilation' from 1 to 2147483647, got 2147483648}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [2147483648] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_padding_low_bounded(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected entries of 'padding_low' from -2147483647 to 2147483647, got -9223372036854775808}}
  %0 = repro.convolution strides = [1] padding_low = [-9223372036854775808] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_padding_high_count(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected one entry of 'padding_high' per spatial dimension (1), got 0}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = []
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_window_reversal_count(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected one entry of 'window_reversal' per spatial dimension (1), got 2}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false, true]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_groups_positive(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected positive numbers of groups, one of them 1, got 0 feature groups and 1 batch groups}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 0 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_groups_of_one_kind(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected positive numbers of groups, one of them 1, got 2 feature groups and 2 batch groups}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 2 batch_groups = 2
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_feature_groups_divide_input(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected 3 feature groups to divide 4 input channels and 6 result channels}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 3 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_feature_groups_divide_result(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected 4 feature groups to divide 4 input channels and 6 result channels}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 4 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_batch_groups_divide_batch(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected 3 batch groups to divide a batch of 2 and 6 result channels}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 3
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_batch_groups_divide_result(%x: tensor<2x4x9xf32>, %w: tensor<5x4x3xf32>, %o: tensor<1x5x7xf32>) -> tensor<1x5x7xf32> {
  // expected-error @+1 {{(K2) expected 2 batch groups to divide a batch of 2 and 5 result channels}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 2
      ins(%x, %w : tensor<2x4x9xf32>, tensor<5x4x3xf32>) outs(%o : tensor<1x5x7xf32>) -> tensor<1x5x7xf32>
  return %0 : tensor<1x5x7xf32>
}

// -----

func.func @K2_kernel_channels(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected a kernel of 2 channels, those of one of 2 groups, got 4}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 2 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_kernel_without_elements(%x: tensor<2x4x9xf32>, %w: tensor<6x4x0xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected a kernel that has elements in spatial dimension 0}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x0xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_result_shape(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x8xf32>) -> tensor<2x6x8xf32> {
  // expected-error @+1 {{(K2) expected a result of shape 'tensor<2x6x7xf32>', got 'tensor<2x6x8xf32>'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %0 : tensor<2x6x8xf32>
}

// -----

func.func @K2_result_batch(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) expected a result of shape 'tensor<1x6x7xf32>', got 'tensor<2x6x7xf32>'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 2
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_result_channels(%x: tensor<2x4x9xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x5x7xf32>) -> tensor<2x5x7xf32> {
  // expected-error @+1 {{(K2) expected a result of shape 'tensor<2x6x7xf32>', got 'tensor<2x5x7xf32>'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  return %0 : tensor<2x5x7xf32>
}

// -----

// A window that is wider than its input has an empty result.
func.func @K2_window_beyond_input(%x: tensor<2x4x9xf32>, %w: tensor<6x4x10xf32>, %o: tensor<2x6x1xf32>) -> tensor<2x6x1xf32> {
  // expected-error @+1 {{(K2) expected a result of shape 'tensor<2x6x0xf32>', got 'tensor<2x6x1xf32>'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x10xf32>) outs(%o : tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  return %0 : tensor<2x6x1xf32>
}

// -----

func.func @K2_data_overflow(%x: tensor<2x4x9223372036854775807xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) positions in spatial dimension 0 do not fit into 64 bits}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [2] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9223372036854775807xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_window_overflow(%x: tensor<2x4x9xf32>, %w: tensor<6x4x9223372036854775807xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) positions in spatial dimension 0 do not fit into 64 bits}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [2147483647] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9xf32>, tensor<6x4x9223372036854775807xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

func.func @K2_padding_overflow(%x: tensor<2x4x9223372036854775807xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x7xf32>) -> tensor<2x6x7xf32> {
  // expected-error @+1 {{(K2) positions in spatial dimension 0 do not fit into 64 bits}}
  %0 = repro.convolution strides = [1] padding_low = [1] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9223372036854775807xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x7xf32>) -> tensor<2x6x7xf32>
  return %0 : tensor<2x6x7xf32>
}

// -----

// Known extents are checked even if others are unknown.
func.func @K2_unknown_extents(%x: tensor<?x4x?xf32>, %w: tensor<6x4x3xf32>, %o: tensor<?x5x?xf32>) -> tensor<?x5x?xf32> {
  // expected-error @+1 {{(K2) expected a result of shape 'tensor<?x6x?xf32>', got 'tensor<?x5x?xf32>'}}
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0]
      input_dilation = [1] kernel_dilation = [1] window_reversal = [false]
      feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<?x4x?xf32>, tensor<6x4x3xf32>) outs(%o : tensor<?x5x?xf32>) -> tensor<?x5x?xf32>
  return %0 : tensor<?x5x?xf32>
}
