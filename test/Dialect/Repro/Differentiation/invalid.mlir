// RUN: %repro-opt --repro-differentiate="results=0 arguments=0" --allow-unregistered-dialect --split-input-file --verify-diagnostics %s

// expected-error @below {{(J1) there is no argument 0 of 0}}
func.func @main() -> tensor<4xf32> {
  %0 = arith.constant dense<0.0> : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{(J1) result 0 is 'tensor<4xi64>', expected a tensor of floats of static shape}}
func.func @main(%x: tensor<4xf32>, %y: tensor<4xi64>) -> tensor<4xi64> {
  return %y : tensor<4xi64>
}

// -----

// expected-error @below {{(J1) argument 0 is 'tensor<?xf32>', expected a tensor of floats of static shape}}
func.func @main(%x: tensor<?xf32>) -> tensor<4xf32> {
  %0 = arith.constant dense<0.0> : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<4xf32>
  // expected-error @below {{(J1) has a derivative only for sums and products}}
  %0 = repro.scan maximum dimension = 0 ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

#v = affine_map<(d0) -> (d0)>

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %out: f32):

    // expected-error @below {{(J2) has no derivative}}
    %s = "test.unknown"(%e) : (f32) -> f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
