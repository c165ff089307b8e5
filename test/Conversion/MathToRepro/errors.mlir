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

// -----

func.func @Q1_scale(%x: f4E2M1FN, %scale: f32) -> f32 {
  // expected-error @+1 {{(Q1) expected a scale of f8E8M0FNU, got 'f32'}}
  %0 = arith.scaling_extf %x, %scale : f4E2M1FN, f32 to f32
  return %0 : f32
}

// -----

func.func @Q1_result(%x: f4E2M1FN, %scale: f8E8M0FNU) -> bf16 {
  // expected-error @+1 {{(Q1) expected a result of f32, got 'bf16'}}
  %0 = arith.scaling_extf %x, %scale : f4E2M1FN, f8E8M0FNU to bf16
  return %0 : bf16
}

// -----

func.func @Q1_operand(%x: f64, %scale: f8E8M0FNU) -> f4E2M1FN {
  // expected-error @+1 {{(Q1) expected an operand of f32, got 'f64'}}
  %0 = arith.scaling_truncf %x, %scale : f64, f8E8M0FNU to f4E2M1FN
  return %0 : f4E2M1FN
}
