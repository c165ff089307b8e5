#map = affine_map<(d0) -> (d0)>
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tensor.empty() : tensor<2xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", #map]} ins(%a : tensor<2xf32>) outs(%0 : tensor<2xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
