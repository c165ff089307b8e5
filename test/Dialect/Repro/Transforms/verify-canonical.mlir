// A program with one operation of each type passes unchanged.
// RUN: %repro-opt --repro-verify-canonical %s | FileCheck %s

#id = affine_map<(d0) -> (d0)>
#s = affine_map<(d0) -> ()>
// CHECK: func.func @main
func.func @main(%w: tensor<8xf32> {repro.name = "w"}, %seed: tensor<i64>, %x: tensor<8xbf16>)
    -> (tensor<8xf32>, tensor<i64>, tensor<f32>, tensor<10xf32>) attributes {repro.num_state = 2 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %key = tensor.extract %seed[] : tensor<i64>
  %empty = tensor.empty() : tensor<8xf32>
  %scalar = tensor.empty() : tensor<f32>
  %noise = repro.random uniform site = 0 ins(%key, %key : i64, i64) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
  %step = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%noise, %x : tensor<8xf32>, tensor<8xbf16>) outs(%empty : tensor<8xf32>) {
  ^bb0(%a: f32, %b: bf16, %out: f32):
    %i = linalg.index 0 : index
    %at = tensor.extract %w[%i] : tensor<8xf32>
    %c = arith.extf %b : bf16 to f32
    %d = repro.tanh %a : f32
    %e = math.fma %c, %d, %at : f32
    %ok = arith.cmpf ord, %e, %e : f32
    cf.assert %ok, "NaN"
    linalg.yield %e : f32
  } -> tensor<8xf32>
  %start = linalg.generic {indexing_maps = [affine_map<() -> ()>], iterator_types = []} outs(%scalar : tensor<f32>) {
  ^bb0(%out: f32):
    linalg.yield %zero : f32
  } -> tensor<f32>
  %sum = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold> maps [#id, #s]
      iterators [reduction] ins(%step : tensor<8xf32>) outs(%start : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %i = repro.index 0 : index
    %b = arith.addf %a, %acc : f32
    repro.yield %b : f32
  } -> tensor<f32>
  %padded = tensor.pad %step low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<8xf32> to tensor<10xf32>
  return %step, %seed, %sum, %padded : tensor<8xf32>, tensor<i64>, tensor<f32>, tensor<10xf32>
}
