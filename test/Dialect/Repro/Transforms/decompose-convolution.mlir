// (K2) Convolutions become folds without an order, one for each stride phase that has taps.
// RUN: %repro-opt --repro-decompose-convolution --split-input-file --verify-diagnostics %s | FileCheck %s

// CHECK-DAG: #[[X:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 * 2 + d5, d3 * 2 + d6 * 3)>
// CHECK-DAG: #[[W:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
// CHECK: func.func @K2_plain(%[[x:.*]]: tensor<2x4x8x9xf32>, %[[w:.*]]: tensor<6x4x3x3xf32>, %[[o:.*]]: tensor<2x6x4x2xf32>)
// No window reads the last row of padding.
// CHECK: %[[p:.*]] = tensor.pad %[[x]] low[0, 0, 1, 0] high[0, 0, 0, 0]
// CHECK: to tensor<2x4x9x9xf32>
// CHECK: %[[f:.*]] = repro.fold maps [#[[X]], #[[W]], #[[O]]]
// CHECK-SAME: iterators [parallel, parallel, parallel, parallel, reduction, reduction, reduction]
// CHECK-SAME: ins(%[[p]], %[[w]] : tensor<2x4x9x9xf32>, tensor<6x4x3x3xf32>) outs(%[[o]] : tensor<2x6x4x2xf32>)
// CHECK-NEXT: ^bb0(%[[a:.*]]: f32, %[[b:.*]]: f32, %[[c:.*]]: f32):
// CHECK-NEXT: %[[s:.*]] = math.fma %[[a]], %[[b]], %[[c]] : f32
// CHECK-NEXT: repro.yield %[[s]] : f32
// CHECK: return %[[f]]
func.func @K2_plain(%x: tensor<2x4x8x9xf32>, %w: tensor<6x4x3x3xf32>, %o: tensor<2x6x4x2xf32>) -> tensor<2x6x4x2xf32> {
  %0 = repro.convolution strides = [2, 2] padding_low = [1, 0] padding_high = [1, 0] input_dilation = [1, 1]
      kernel_dilation = [1, 3] window_reversal = [false, false] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x8x9xf32>, tensor<6x4x3x3xf32>) outs(%o : tensor<2x6x4x2xf32>) -> tensor<2x6x4x2xf32>
  return %0 : tensor<2x6x4x2xf32>
}

// -----

// A transposed convolution of stride 2 divides 5 taps into 3 and 2. Results after the last one are cropped.
// CHECK-DAG: #[[EVEN:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2 * -2 + 4)>
// CHECK-DAG: #[[ODD:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2 * -2 + 3)>
// CHECK-DAG: #[[X:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d2 + d4)>
// CHECK: func.func @K2_phases(%[[x:.*]]: tensor<2x4x7xf32>, %[[w:.*]]: tensor<6x4x5xf32>, %[[b:.*]]: tensor<6xf32>)
// CHECK: %[[o:.*]] = linalg.generic {{.*}} ins(%[[b]] : tensor<6xf32>) outs(%{{.*}} : tensor<2x6x7xf32>)
// CHECK: %[[p:.*]] = tensor.pad %[[x]] low[0, 0, 1] high[0, 0, 1]
// CHECK: to tensor<2x4x9xf32>
// CHECK: %[[even:.*]] = linalg.generic {indexing_maps = [#[[EVEN]], {{.*}} ins(%[[w]] : tensor<6x4x5xf32>) outs(%{{.*}} : tensor<6x4x3xf32>)
// CHECK: %[[first:.*]] = repro.fold maps [#[[X]], {{.*}} ins(%[[p]], %[[even]] : {{.*}} outs(%[[o]] : tensor<2x6x7xf32>)
// CHECK: %[[part:.*]] = tensor.extract_slice %[[p]][0, 0, 1] [2, 4, 8] [1, 1, 1]
// CHECK: %[[odd:.*]] = linalg.generic {indexing_maps = [#[[ODD]], {{.*}} ins(%[[w]] : tensor<6x4x5xf32>) outs(%{{.*}} : tensor<6x4x2xf32>)
// CHECK: %[[second:.*]] = repro.fold maps [#[[X]], {{.*}} ins(%[[part]], %[[odd]] : {{.*}} outs(%[[o]] : tensor<2x6x7xf32>)
// CHECK: %[[i:.*]] = tensor.expand_shape %[[first]] {{\[}}[0], [1], [2, 3]] output_shape [2, 6, 7, 1]
// CHECK: %[[j:.*]] = tensor.expand_shape %[[second]] {{\[}}[0], [1], [2, 3]] output_shape [2, 6, 7, 1]
// CHECK: %[[k:.*]] = tensor.concat dim(3) %[[i]], %[[j]]
// CHECK: %[[l:.*]] = tensor.collapse_shape %[[k]] {{\[}}[0], [1], [2, 3]]
// CHECK: tensor.extract_slice %[[l]][0, 0, 0] [2, 6, 13] [1, 1, 1]
func.func @K2_phases(%x: tensor<2x4x7xf32>, %w: tensor<6x4x5xf32>, %b: tensor<6xf32>) -> tensor<2x6x13xf32> {
  %e = tensor.empty() : tensor<2x6x13xf32>
  %o = linalg.generic {
      indexing_maps = [affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%b : tensor<6xf32>) outs(%e : tensor<2x6x13xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x6x13xf32>
  %0 = repro.convolution strides = [1] padding_low = [2] padding_high = [2] input_dilation = [2]
      kernel_dilation = [1] window_reversal = [true] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x7xf32>, tensor<6x4x5xf32>) outs(%o : tensor<2x6x13xf32>) -> tensor<2x6x13xf32>
  return %0 : tensor<2x6x13xf32>
}

// -----

// (K3) Initial operands are read with the stride of the phases; a phase without taps is its initial operand.
// CHECK-LABEL: func.func @K3_own_initial_operands
// CHECK-SAME: (%[[x:.*]]: tensor<2x4x3xf32>, %[[w:.*]]: tensor<6x4x1xf32>, %[[o:.*]]: tensor<2x6x8xf32>)
// CHECK: %[[p:.*]] = tensor.pad %[[o]] low[0, 0, 0] high[0, 0, 1]
// CHECK: %[[i:.*]] = tensor.extract_slice %[[p]][0, 0, 0] [2, 6, 3] [1, 1, 3]
// CHECK: %[[f:.*]] = repro.fold {{.*}} outs(%[[i]] : tensor<2x6x3xf32>)
// CHECK: %[[j:.*]] = tensor.extract_slice %[[p]][0, 0, 1] [2, 6, 3] [1, 1, 3]
// CHECK: %[[k:.*]] = tensor.extract_slice %[[p]][0, 0, 2] [2, 6, 3] [1, 1, 3]
// CHECK-NOT: repro.fold
// CHECK: tensor.expand_shape %[[f]]
// CHECK: tensor.expand_shape %[[j]]
// CHECK: tensor.expand_shape %[[k]]
func.func @K3_own_initial_operands(%x: tensor<2x4x3xf32>, %w: tensor<6x4x1xf32>, %o: tensor<2x6x8xf32>) -> tensor<2x6x8xf32> {
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [1] input_dilation = [3]
      kernel_dilation = [1] window_reversal = [false] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x3xf32>, tensor<6x4x1xf32>) outs(%o : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %0 : tensor<2x6x8xf32>
}

// -----

// CHECK-LABEL: func.func @K3_equal_initial_operands
// CHECK: %[[zero:.*]] = tensor.splat %{{.*}} : tensor<2x6x3xf32>
// CHECK: repro.fold
// CHECK: tensor.expand_shape %[[zero]]
func.func @K3_equal_initial_operands(%x: tensor<2x4x3xf32>, %w: tensor<6x4x1xf32>) -> tensor<2x6x6xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x6xf32>
  %o = linalg.generic {
      indexing_maps = [affine_map<(d0, d1, d2) -> ()>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : f32) outs(%e : tensor<2x6x6xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x6x6xf32>
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [1] input_dilation = [2]
      kernel_dilation = [1] window_reversal = [false] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x3xf32>, tensor<6x4x1xf32>) outs(%o : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  return %0 : tensor<2x6x6xf32>
}

// -----

// A constant is treated like a fill: it is not copied.
// CHECK-LABEL: func.func @K3_constant_initial_operands
// CHECK: %[[o:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x6x3xf32>)
// CHECK: repro.fold {{.*}} outs(%[[o]] : tensor<2x6x3xf32>)
func.func @K3_constant_initial_operands(%x: tensor<2x4x3xf32>, %w: tensor<6x4x1xf32>) -> tensor<2x6x3xf32> {
  %o = arith.constant dense<0.0> : tensor<2x6x3xf32>
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0] input_dilation = [1]
      kernel_dilation = [1] window_reversal = [false] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x3xf32>, tensor<6x4x1xf32>) outs(%o : tensor<2x6x3xf32>) -> tensor<2x6x3xf32>
  return %0 : tensor<2x6x3xf32>
}

// -----

// CHECK-LABEL: func.func @K2_no_taps_at_all
// CHECK-SAME: %[[o:[a-z0-9]*]]: tensor<2x6x1xf32>)
// CHECK-NEXT: return %[[o]]
func.func @K2_no_taps_at_all(%x: tensor<2x4x3xf32>, %w: tensor<6x4x1xf32>, %o: tensor<2x6x1xf32>) -> tensor<2x6x1xf32> {
  %0 = repro.convolution strides = [7] padding_low = [-1] padding_high = [0] input_dilation = [3]
      kernel_dilation = [1] window_reversal = [false] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x3xf32>, tensor<6x4x1xf32>) outs(%o : tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  return %0 : tensor<2x6x1xf32>
}

// -----

// CHECK-DAG: #[[X:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, d3 + d5)>
// CHECK-DAG: #[[W:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d2, d4, d5)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>
// CHECK: func.func @K2_feature_groups(%[[x:.*]]: tensor<2x4x5xf32>, %[[w:.*]]: tensor<6x2x3xf32>, %[[o:.*]]: tensor<2x6x3xf32>)
// CHECK-DAG: %[[a:.*]] = tensor.expand_shape %[[x]] {{.*}} into tensor<2x2x2x5xf32>
// CHECK-DAG: %[[b:.*]] = tensor.expand_shape %[[w]] {{.*}} into tensor<2x3x2x3xf32>
// CHECK-DAG: %[[c:.*]] = tensor.expand_shape %[[o]] {{.*}} into tensor<2x2x3x3xf32>
// CHECK: %[[f:.*]] = repro.fold maps [#[[X]], #[[W]], #[[O]]] iterators [parallel, parallel, parallel, parallel, reduction, reduction]
// CHECK-SAME: ins(%[[a]], %[[b]] : tensor<2x2x2x5xf32>, tensor<2x3x2x3xf32>) outs(%[[c]] : tensor<2x2x3x3xf32>)
// CHECK: tensor.collapse_shape %[[f]] {{.*}} into tensor<2x6x3xf32>
func.func @K2_feature_groups(%x: tensor<2x4x5xf32>, %w: tensor<6x2x3xf32>, %o: tensor<2x6x3xf32>) -> tensor<2x6x3xf32> {
  %0 = repro.convolution strides = [1] padding_low = [0] padding_high = [0] input_dilation = [1]
      kernel_dilation = [1] window_reversal = [false] feature_groups = 2 batch_groups = 1
      ins(%x, %w : tensor<2x4x5xf32>, tensor<6x2x3xf32>) outs(%o : tensor<2x6x3xf32>) -> tensor<2x6x3xf32>
  return %0 : tensor<2x6x3xf32>
}

// -----

// A weight gradient: the fold reads through the exchange of batch and channel, padding and groups included.
// CHECK-DAG: #[[X:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d4, d1, d0, d3 + d5 * 2)>
// CHECK-DAG: #[[W:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d4, d1, d2, d5)>
// CHECK: func.func @K2_batch_groups(%[[x:.*]]: tensor<5x4x8xf32>, %[[w:.*]]: tensor<5x6x4xf32>, %[[o:.*]]: tensor<2x6x3xf32>)
// CHECK: %[[p:.*]] = tensor.pad %[[x]] low[0, 0, 1] high[0, 0, 0]
// CHECK-DAG: %[[a:.*]] = tensor.expand_shape %[[p]] {{.*}} into tensor<5x2x2x9xf32>
// CHECK-DAG: %[[b:.*]] = tensor.expand_shape %[[w]] {{.*}} into tensor<5x2x3x4xf32>
// CHECK: repro.fold maps [#[[X]], #[[W]], {{.*}} ins(%[[a]], %[[b]] : tensor<5x2x2x9xf32>, tensor<5x2x3x4xf32>)
func.func @K2_batch_groups(%x: tensor<5x4x8xf32>, %w: tensor<5x6x4xf32>, %o: tensor<2x6x3xf32>) -> tensor<2x6x3xf32> {
  %ex = tensor.empty() : tensor<4x5x8xf32>
  %tx = linalg.generic {
      indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<5x4x8xf32>) outs(%ex : tensor<4x5x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x5x8xf32>
  %ew = tensor.empty() : tensor<6x5x4xf32>
  %tw = linalg.generic {
      indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1, d0, d2)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<5x6x4xf32>) outs(%ew : tensor<6x5x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<6x5x4xf32>
  %0 = repro.convolution strides = [1] padding_low = [1] padding_high = [0] input_dilation = [1]
      kernel_dilation = [2] window_reversal = [false] feature_groups = 1 batch_groups = 2
      ins(%tx, %tw : tensor<4x5x8xf32>, tensor<6x5x4xf32>) outs(%o : tensor<2x6x3xf32>) -> tensor<2x6x3xf32>
  return %0 : tensor<2x6x3xf32>
}

// -----

// Images with channels last are padded after the transposition: the rows of the padded image are written once.
// CHECK-LABEL: func.func @K2_channels_last
// CHECK: %[[t:.*]] = linalg.generic
// CHECK: tensor.pad %[[t]]
func.func @K2_channels_last(%x: tensor<2x8x4xf32>, %w: tensor<6x4x3xf32>, %o: tensor<2x6x8xf32>) -> tensor<2x6x8xf32> {
  %e = tensor.empty() : tensor<2x4x8xf32>
  %t = linalg.generic {
      indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x8x4xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x4x8xf32>
  %0 = repro.convolution strides = [1] padding_low = [1] padding_high = [1] input_dilation = [1]
      kernel_dilation = [1] window_reversal = [false] feature_groups = 1 batch_groups = 1
      ins(%t, %w : tensor<2x4x8xf32>, tensor<6x4x3xf32>) outs(%o : tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %0 : tensor<2x6x8xf32>
}

// -----

// CHECK-LABEL: func.func @F7_storage
// CHECK: ^bb0(%[[x:.*]]: bf16, %[[y:.*]]: f16, %[[acc:.*]]: f32):
// CHECK-NEXT: %[[a:.*]] = arith.extf %[[x]] : bf16 to f32
// CHECK-NEXT: %[[b:.*]] = arith.extf %[[y]] : f16 to f32
// CHECK-NEXT: %[[s:.*]] = math.fma %[[a]], %[[b]], %[[acc]] : f32
// CHECK-NEXT: repro.yield %[[s]] : f32
func.func @F7_storage(%x: tensor<2x4xbf16>, %w: tensor<6x4xf16>, %o: tensor<2x6xbf16>) -> tensor<2x6xbf16> {
  %0 = repro.convolution strides = [] padding_low = [] padding_high = [] input_dilation = [] kernel_dilation = []
      window_reversal = [] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4xbf16>, tensor<6x4xf16>) outs(%o : tensor<2x6xbf16>) -> tensor<2x6xbf16>
  return %0 : tensor<2x6xbf16>
}

// -----

// CHECK-LABEL: func.func @K1_integers
// CHECK: ^bb0(%[[x:.*]]: i32, %[[y:.*]]: i32, %[[acc:.*]]: i32):
// CHECK-NEXT: %[[p:.*]] = arith.muli %[[x]], %[[y]] : i32
// CHECK-NEXT: %[[s:.*]] = arith.addi %[[acc]], %[[p]] : i32
// CHECK-NEXT: repro.yield %[[s]] : i32
func.func @K1_integers(%x: tensor<2x4xi32>, %w: tensor<6x4xi32>, %o: tensor<2x6xi32>) -> tensor<2x6xi32> {
  %0 = repro.convolution strides = [] padding_low = [] padding_high = [] input_dilation = [] kernel_dilation = []
      window_reversal = [] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4xi32>, tensor<6x4xi32>) outs(%o : tensor<2x6xi32>) -> tensor<2x6xi32>
  return %0 : tensor<2x6xi32>
}

// -----

func.func @K2_too_many_phases(%x: tensor<2x4x9x9xf32>, %w: tensor<6x4x1x1xf32>, %o: tensor<2x6x521x521xf32>) -> tensor<2x6x521x521xf32> {
  // expected-error @+1 {{(K2) has more than 4096 stride phases}}
  %0 = repro.convolution strides = [1, 1] padding_low = [0, 0] padding_high = [0, 0] input_dilation = [65, 65]
      kernel_dilation = [1, 1] window_reversal = [false, false] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4x9x9xf32>, tensor<6x4x1x1xf32>) outs(%o : tensor<2x6x521x521xf32>) -> tensor<2x6x521x521xf32>
  return %0 : tensor<2x6x521x521xf32>
}

// -----

// Neither map of these generic operations is the identity. The first transposes the spatial dimensions, so the fold
// reads its result; the second exchanges the batch and the channels, so the fold reads its operand.
// CHECK-DAG: #[[X:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 + d5, d3 + d6)>
// CHECK-DAG: #[[Y:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d0, d2 + d5, d3 + d6)>
// CHECK: func.func @K2_permuted(%[[x:.*]]: tensor<3x3x5x5xf32>, %[[w:.*]]: tensor<2x3x2x2xf32>, %{{.*}}: tensor<3x2x4x4xf32>)
// CHECK: %[[t:.*]] = linalg.generic {{.*}} ins(%[[x]] : tensor<3x3x5x5xf32>)
// CHECK: repro.fold maps [#[[X]], {{.*}} ins(%[[t]], %[[w]] :
// CHECK: repro.fold maps [#[[Y]], {{.*}} ins(%[[x]], %[[w]] :
#rows = affine_map<(d0, d1, d2, d3) -> (d2, d3, d0, d1)>
#spatial = affine_map<(d0, d1, d2, d3) -> (d2, d3, d1, d0)>
#batch = affine_map<(d0, d1, d2, d3) -> (d3, d2, d0, d1)>
func.func @K2_permuted(%x: tensor<3x3x5x5xf32>, %w: tensor<2x3x2x2xf32>, %o: tensor<3x2x4x4xf32>)
    -> (tensor<3x2x4x4xf32>, tensor<3x2x4x4xf32>) {
  %e = tensor.empty() : tensor<3x3x5x5xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #spatial],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<3x3x5x5xf32>) outs(%e : tensor<3x3x5x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<3x3x5x5xf32>
  %1 = repro.convolution strides = [1, 1] padding_low = [0, 0] padding_high = [0, 0] input_dilation = [1, 1]
      kernel_dilation = [1, 1] window_reversal = [false, false] feature_groups = 1 batch_groups = 1
      ins(%0, %w : tensor<3x3x5x5xf32>, tensor<2x3x2x2xf32>) outs(%o : tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
  %2 = linalg.generic {indexing_maps = [#rows, #batch],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<3x3x5x5xf32>) outs(%e : tensor<3x3x5x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<3x3x5x5xf32>
  %3 = repro.convolution strides = [1, 1] padding_low = [0, 0] padding_high = [0, 0] input_dilation = [1, 1]
      kernel_dilation = [1, 1] window_reversal = [false, false] feature_groups = 1 batch_groups = 1
      ins(%2, %w : tensor<3x3x5x5xf32>, tensor<2x3x2x2xf32>) outs(%o : tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
  return %1, %3 : tensor<3x2x4x4xf32>, tensor<3x2x4x4xf32>
}
