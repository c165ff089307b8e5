// RUN: %repro-opt --repro-quantize-contractions --split-input-file --verify-diagnostics %s

// Two different transforms would not cancel out.
func.func @main(%x: tensor<8x16xf32>, %v: tensor<4x16xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q5) expected the same transform of both factors}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {
        format = bf16, hadamard = array<i64: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1>}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q5) expected a multiple of 16 elements along K, got 24}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {
        left = {format = bf16, hadamard = array<i64: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1>},
        right = {format = bf16, hadamard = array<i64: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1>}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// A square has only one operand.
func.func @main(%x: tensor<8x24xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected two factors, got the square of one}}
  %0 = repro.fold maps [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>] iterators [parallel, reduction]
      ins(%x : tensor<8x24xf32>) outs(%o : tensor<8xf32>)
      attributes {repro.precision = {left = {format = bf16}}} {
  ^bb0(%a: f32, %acc: f32):
    %s = math.fma %a, %a, %acc : f32
    repro.yield %s : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{expected 'repro.precision' of a contraction (K1) with accumulators of f32}}
  %0 = repro.fold maps [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>] iterators [parallel, reduction]
      ins(%x : tensor<8x24xf32>) outs(%o : tensor<8xf32>)
      attributes {repro.precision = {left = {format = bf16}}} {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %a, %acc : f32
    repro.yield %s : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @main(%x: tensor<8x16xf32>, %v: tensor<4x16xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{expected bf16, f16, tf32 or a format of blocks, got f64}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = f64}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x16xf32>, %v: tensor<4x16xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{unknown 'weight' in 'repro.precision'}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {weight = {format = bf16}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// The values of the forward pass come from another tensor.
func.func @main(%x: tensor<8x16xf32>, %v: tensor<4x16xf32>, %o: tensor<8x4xf32>, %y: tensor<8x16xf32>)
    -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = tf32}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  // expected-error @+1 {{the values of the forward pass cannot be used again}}
  %1 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%y, %v : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {forward = array<i64: 0, 0>}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x16xf32>, %v: tensor<4x16xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{expected a dictionary as 'repro.precision', got 5 : i64}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = 5 : i64} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x16xf32>, %v: tensor<4x16xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{expected only 'forward', with the number of a contraction and 0 or 1}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = bf16, forward = 3 : i64}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x16xf32>, %v: tensor<4x16xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{expected no value of 'hadamard_bf16', got false}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = bf16, hadamard_bf16 = false}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x?xf32>, %v: tensor<4x16xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{expected operands of static shape, got 'tensor<8x?xf32>'}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x?xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = bf16}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q6) expected 'delayed' for each format under a given scale, and only for these}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q6) expected 'delayed' for each format under a given scale, and only for these}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = bf16, delayed = {name = "x"}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{expected a dictionary as 'delayed', got 1 : i64}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = 1}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{unknown 'length' in 'repro.precision'}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = {name = "x", length = 4}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q6) expected the name of a scale, got {history = 4 : i64}}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = {history = 4}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q6) expected a history from 1 to 65536, got 0}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = {name = "x", history = 0}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q6) expected a history from 1 to 65536, got 65537}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = {name = "x", history = 65537}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q6) expected a margin from -32 to 32, got 33}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = {name = "x", history = 4, margin = 33}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{expected no value of 'most_recent', got true}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = {name = "x", history = 4, most_recent = true}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q6) expected one way to the scale "x" for elements of one type}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = {name = "x", history = 4}},
        right = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = {name = "x", history = 5}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q6) expected one way to the scale "x" for elements of one type}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = {name = "x", history = 4}},
        right = {format = #repro.block_format<element = f8E5M2, rows = 0, columns = 0, scale = #repro.given_scale,
          rounding = #repro.rounding<direction = rne>>, delayed = {name = "x", history = 4}}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

#mx = #repro.block_format<element = f8E4M3FN, rows = 1, columns = 16, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = rne>>

// A recipe must be applied only once.
func.func @main(%x: tensor<8x16xf32>, %v: tensor<4x16xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %codes, %scales = repro.quantize #mx %x : tensor<8x16xf32> -> tensor<8x16xf8E4M3FN>, tensor<8x1xf8E8M0FNU>
  %d = repro.dequantize #mx %codes, %scales : tensor<8x16xf8E4M3FN>, tensor<8x1xf8E8M0FNU> -> tensor<8x16xf32>
  // expected-error @+1 {{expected operands that are not in blocks yet}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%d, %v : tensor<8x16xf32>, tensor<4x16xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = bf16}}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

#left = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = rne>>
#right = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = rne>>

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(Q4) expected blocks that are "fused", "split" or "scaled", got "exact"}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #left}, right = {format = #right}, blocks = "exact"}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

#left = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = rne>>
#right = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = rne>>

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(M5) expected #repro.fdpa with 'blocks', got 8 : i64}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #left}, right = {format = #right}, blocks = "fused", accumulator = 8}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

#left = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = rne>>
#right = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = rne>>

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(M5) expected #repro.fdpa with 'blocks', got #repro.fdpa<}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #left}, right = {format = #right}, accumulator = #repro.fdpa<terms = 8, fraction = 25, round = rz_f32, floor = -133>}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

#left = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.two_level_scale<largest = 448>,
    rounding = #repro.rounding<direction = rne>>
#right = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.power_scale<rule = rceil>,
    rounding = #repro.rounding<direction = rne>>

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(M5) expected scales that are powers of two or f8E4M3FN of one level, or two levels of both factors, got #repro.two_level_scale<largest = 448> and #repro.power_scale<}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #left}, right = {format = #right}, blocks = "scaled", accumulator = #repro.fdpa<terms = 8, fraction = 25, round = rz_f32, floor = -133>}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

#left = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.quotient_scale<levels = 2>,
    rounding = #repro.rounding<direction = rne>>
#right = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.quotient_scale<levels = 2>,
    rounding = #repro.rounding<direction = rne>>

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(M5) expected scales that are powers of two or f8E4M3FN of one level, or two levels of both factors, got #repro.quotient_scale<levels = 2> and #repro.quotient_scale<levels = 2>}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #left}, right = {format = #right}, blocks = "scaled", accumulator = #repro.fdpa<terms = 8, fraction = 25, round = rz_f32, floor = -133>}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

#left = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.two_level_scale<largest = 448>,
    rounding = #repro.rounding<direction = rne>>
#right = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 8, scale = #repro.two_level_scale<largest = 448>,
    rounding = #repro.rounding<direction = rne>>

func.func @main(%x: tensor<8x24xf32>, %v: tensor<4x24xf32>, %o: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{(M5) expected the amax of a whole tensor with scales of two levels, got that of each row}}
  %0 = repro.fold maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                        affine_map<(m, n, k) -> (m, n)>] iterators [parallel, parallel, reduction]
      ins(%x, %v : tensor<8x24xf32>, tensor<4x24xf32>) outs(%o : tensor<8x4xf32>)
      attributes {repro.precision = {left = {format = #left, amax_of_rows}, right = {format = #right},
        blocks = "scaled", accumulator = #repro.fdpa<terms = 8, fraction = 25, round = rz_f32, floor = -133>}} {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %s = math.fma %a, %b, %acc : f32
    repro.yield %s : f32
  } -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
