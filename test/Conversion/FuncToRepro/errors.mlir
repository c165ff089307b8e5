// RUN: %repro-opt --convert-func-to-repro --split-input-file --verify-diagnostics %s

func.func private @helper(tensor<i64>, tensor<i64>) -> tensor<4xf32>
func.func @main(%a: tensor<i64>) -> tensor<4xf32> {
  // expected-error @+1 {{of '@helper': expected a declaration with 'repro.site' and 'repro.distribution'}}
  %0 = func.call @helper(%a, %a) : (tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{(R2) 'repro.distribution' must be "uniform" or "bits", got "normal"}}
func.func private @r(tensor<i64>, tensor<i64>) -> tensor<4xf32> attributes {repro.site = 0 : i64, repro.distribution = "normal"}
func.func @main(%a: tensor<i64>) -> tensor<4xf32> {
  %0 = func.call @r(%a, %a) : (tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @r(tensor<i64>) -> tensor<4xf32> attributes {repro.site = 0 : i64, repro.distribution = "uniform"}
func.func @main(%a: tensor<i64>) -> tensor<4xf32> {
  // expected-error @+1 {{(R1) expected operands (seed, step) of type 'tensor<i64>' and one result, got '(tensor<i64>) -> tensor<4xf32>'}}
  %0 = func.call @r(%a) : (tensor<i64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @r(tensor<i64>, tensor<i64>) -> tensor<4xf64> attributes {repro.site = 0 : i64, repro.distribution = "uniform"}
func.func @main(%a: tensor<i64>) -> tensor<4xf64> {
  // expected-error @+1 {{(R2) 'uniform' gives a tensor of static shape and 'f32' elements, got 'tensor<4xf64>'}}
  %0 = func.call @r(%a, %a) : (tensor<i64>, tensor<i64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
