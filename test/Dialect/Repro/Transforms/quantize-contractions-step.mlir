// (R1) A step that does not count would round all steps with the same bits.
// RUN: %repro-opt --repro-quantize-contractions=random=0,1 --verify-diagnostics %s

#sr = #repro.block_format<element = f8E4M3FN, rows = 1, columns = 16, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = sr, bits = 8>>

// expected-error @+1 {{(R1) expected a step that counts, got one that stays: state #1}}
func.func @main(%seed: tensor<i64>, %step: tensor<i64>, %x: tensor<8x16xf32>, %v: tensor<4x16xf32>, %o: tensor<8x4xf32>)
    -> (tensor<i64>, tensor<i64>, tensor<8x4xf32>) attributes {repro.num_state = 2 : i64} {
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #sr}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %seed, %step, %0 : tensor<i64>, tensor<i64>, tensor<8x4xf32>
}
