// RUN: %repro-opt %s -repro-bufferize -repro-number-checks -repro-outline-kernels -repro-plan-buffers -repro-expand-device-kernels=arch=sm_90 -verify-diagnostics

// The pass repro-decompose-exact would have converted this fold to integers.
func.func @main(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<f32> attributes {repro.num_state = 0 : i64} {
  %zero = arith.constant dense<0.0> : tensor<f32>
  // expected-error@+1 {{expected a matrix product, as those that repro-decompose-exact keeps}}
  %0 = repro.fold #repro.exact<digits = 2> maps [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>]
      iterators [reduction] ins(%a, %b : tensor<64xf32>, tensor<64xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %1 = math.fma %x, %y, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}
