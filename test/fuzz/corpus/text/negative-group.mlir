func.func @main(%arg0: tensor<f8E4M3FN>, %arg1: tensor<64x1x1xi16>) -> (tensor<64x1x1x1x1x1xi16>, tensor<64x1xi16>, tensor<64x1x1xi16>, tensor<64x1x1x1x1x1xi16>) attributes {repro.num_state = 0 : i64} {
  %v1 = tensor.expand_shape %arg1 [[0], [1, 2], [3, 4, 5]] output_shape [64, 1, 1, 1, 1, 1] : tensor<64x1x1xi16> into tensor<64x1x1x1x1x1xi16>
  %v2 = tensor.collapse_shape %arg1 [[0, 1], [-1]] : tensor<64x1x1xi16> into tensor<64x1xi16>
  return %v1, %v2, %arg1, %v1 : tensor<64x1x1x1x1x1xi16>, tensor<64x1xi16>, tensor<64x1x1xi16>, tensor<64x1x1x1x1x1xi16>
}
