// RUN: %repro-opt --convert-math-to-repro --split-input-file --verify-diagnostics %s

func.func @S5_double(%x: f64) -> f64 {
  // expected-error @+1 {{(S5) is defined for f32, bf16, f16, f8E4M3FN and f8E5M2 scalars, got 'f64'}}
  %0 = math.powf %x, %x : f64
  return %0 : f64
}

// -----

func.func @S5_tensor(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{(S5) is defined for f64, f32, bf16, f16, f8E4M3FN and f8E5M2 scalars, got 'tensor<2xf32>'}}
  %0 = math.exp %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @S5_list(%x: i32) -> i32 {
  // expected-error @+1 {{(S5) is not on the list of elementary functions}}
  %0 = math.ipowi %x, %x : i32
  return %0 : i32
}

// -----

func.func @V2_rounding(%x: f64) -> f32 {
  // expected-error @+1 {{(V2) rounds to nearest even, got toward_zero}}
  %0 = arith.truncf %x toward_zero : f64 to f32
  return %0 : f32
}
