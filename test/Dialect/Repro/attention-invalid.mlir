// One test per branch of the verifiers, named after the rule that it violates.
// RUN: %repro-opt %s -split-input-file -verify-diagnostics

func.func @V1_dynamic_shape(%q: tensor<6x?x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>) {
  // expected-error @+1 {{operand #0 must be statically shaped tensor of 32-bit float values}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x?x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @S5_element_type(%q: tensor<6x10x4xf64>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>) {
  // expected-error @+1 {{operand #0 must be statically shaped tensor of 32-bit float values}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf64>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @V1_encoding(%q: tensor<6x10x4xf32, 1>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>) {
  // expected-error @+1 {{(K5) expected 'query' of type 'tensor<6x10x4xf32>', got 'tensor<6x10x4xf32, 1 : i64>'}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32, 1>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_rank(%q: tensor<10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>) {
  // expected-error @+1 {{(K5) expected query, key and value of three dimensions without an extent of 0, got 'tensor<10x4xf32>'}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_extents(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x0x5xf32>) {
  // expected-error @+1 {{(K5) expected query, key and value of three dimensions without an extent of 0, got 'tensor<6x0x5xf32>'}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x0x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_groups_of_keys(%q: tensor<6x10x4xf32>, %k: tensor<4x7x4xf32>, %v: tensor<6x7x5xf32>) {
  // expected-error @+1 {{(K5) expected the numbers of keys and values to divide 6 items, got 4 and 6}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<4x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_groups_of_values(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<12x7x5xf32>) {
  // expected-error @+1 {{(K5) expected the numbers of keys and values to divide 6 items, got 6 and 12}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<12x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_block(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>) {
  // expected-error @+1 {{(K5) expected a positive block, got 0}}
  %0:3 = repro.attention block = 0 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_number_of_blocks(%q: tensor<6x10x4xf32>, %k: tensor<6x262145x4xf32>, %v: tensor<6x262145x5xf32>) {
  // expected-error @+1 {{(K5) expected at most 65536 blocks, got 262145 queries or keys in blocks of 4}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x262145x4xf32>, tensor<6x262145x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_key(%q: tensor<6x10x4xf32>, %k: tensor<6x7x3xf32>, %v: tensor<6x7x5xf32>) {
  // expected-error @+1 {{(K5) expected 'key' of type 'tensor<6x7x4xf32>', got 'tensor<6x7x3xf32>'}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x3xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_value(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x8x5xf32>) {
  // expected-error @+1 {{(K5) expected 'value' of type 'tensor<6x7x5xf32>', got 'tensor<6x8x5xf32>'}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x8x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_mask(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>, %mask: tensor<10x7xi1>) {
  // expected-error @+1 {{(K5) expected 'mask' of type 'tensor<6x10x7xi1>', got 'tensor<10x7xi1>'}}
  %0:3 = repro.attention block = 4 scale = 0.5 mask(%mask : tensor<10x7xi1>)
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_causal_mask(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>, %mask: tensor<6x10x7xi1>) {
  // expected-error @+1 {{(K5) expected either a mask or 'causal', got both}}
  %0:3 = repro.attention causal block = 4 scale = 0.5 mask(%mask : tensor<6x10x7xi1>)
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_rate(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>, %seed: i64, %step: i64) {
  // expected-error @+1 {{(K5) expected a rate of dropout from 0 to 1, got 1.500000e+00}}
  %0:3 = repro.attention block = 4 scale = 0.5 dropout rate = 1.5 site = 3 (%seed, %step : i64, i64)
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_rate_is_a_number(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>, %seed: i64, %step: i64) {
  // expected-error @+1 {{(K5) expected a rate of dropout from 0 to 1, got 0x7FF8000000000000}}
  %0:3 = repro.attention block = 4 scale = 0.5 dropout rate = 0x7FF8000000000000 site = 3 (%seed, %step : i64, i64)
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @R1_site(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>, %seed: i64, %step: i64) {
  // expected-error @+1 {{(R1) site is 4294967296, expected 32 bits}}
  %0:3 = repro.attention block = 4 scale = 0.5 dropout rate = 0.5 site = 4294967296 (%seed, %step : i64, i64)
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_dropout(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>, %seed: i64) {
  // expected-error @+1 {{(K5) expected 'rate', 'site', seed and step of dropout together}}
  %0:3 = "repro.attention"(%q, %k, %v, %seed) <{block = 4 : i64, scale = 0.5 : f64,
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0>}>
      : (tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>, i64)
      -> (tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
  return
}

// -----

func.func @K5_output(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>) {
  // expected-error @+1 {{(K5) expected 'output' of type 'tensor<6x10x5xf32>', got 'tensor<6x10x4xf32>'}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x4xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_maxima(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>) {
  // expected-error @+1 {{(K5) expected 'maxima' of type 'tensor<6x10xf32>', got 'tensor<6x10x1xf32>'}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10x1xf32>, tensor<6x10xf32>
  return
}

// -----

func.func @K5_logarithms(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>) {
  // expected-error @+1 {{(K5) expected 'logarithms' of type 'tensor<6x10xf32>', got 'tensor<6x7xf32>'}}
  %0:3 = repro.attention block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>) -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x7xf32>
  return
}

// -----

func.func @K5_gradient(%q: tensor<6x10x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<6x7x5xf32>, %g: tensor<6x10x4xf32>,
    %o: tensor<6x10x5xf32>, %m: tensor<6x10xf32>) {
  // expected-error @+1 {{(K5) expected 'gradient' of type 'tensor<6x10x5xf32>', got 'tensor<6x10x4xf32>'}}
  %0:3 = repro.attention_gradient block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>) gradient(%g : tensor<6x10x4xf32>)
      results(%o, %m, %m : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
      -> tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>
  return
}

// -----

func.func @K5_query_gradient(%q: tensor<6x10x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<6x7x5xf32>, %g: tensor<6x10x5xf32>,
    %o: tensor<6x10x5xf32>, %m: tensor<6x10xf32>) {
  // expected-error @+1 {{(K5) expected 'query_gradient' of type 'tensor<6x10x4xf32>', got 'tensor<2x10x4xf32>'}}
  %0:3 = repro.attention_gradient block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>) gradient(%g : tensor<6x10x5xf32>)
      results(%o, %m, %m : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
      -> tensor<2x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>
  return
}

// -----

func.func @K5_key_gradient(%q: tensor<6x10x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<6x7x5xf32>, %g: tensor<6x10x5xf32>,
    %o: tensor<6x10x5xf32>, %m: tensor<6x10xf32>) {
  // expected-error @+1 {{(K5) expected 'key_gradient' of type 'tensor<2x7x4xf32>', got 'tensor<6x7x4xf32>'}}
  %0:3 = repro.attention_gradient block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>) gradient(%g : tensor<6x10x5xf32>)
      results(%o, %m, %m : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
      -> tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>
  return
}

// -----

func.func @K5_value_gradient(%q: tensor<6x10x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<6x7x5xf32>, %g: tensor<6x10x5xf32>,
    %o: tensor<6x10x5xf32>, %m: tensor<6x10xf32>) {
  // expected-error @+1 {{(K5) expected 'value_gradient' of type 'tensor<6x7x5xf32>', got 'tensor<6x7x4xf32>'}}
  %0:3 = repro.attention_gradient block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>) gradient(%g : tensor<6x10x5xf32>)
      results(%o, %m, %m : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
      -> tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x4xf32>
  return
}

// -----

func.func @K5_gradient_without_mask(%q: tensor<6x10x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<6x7x5xf32>, %g: tensor<6x10x5xf32>,
    %o: tensor<6x10x5xf32>, %m: tensor<6x10xf32>) {
  // expected-error @+1 {{(K5) expected 'mask_gradient' if and only if the mask is of numbers}}
  %0:4 = repro.attention_gradient block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>) gradient(%g : tensor<6x10x5xf32>)
      results(%o, %m, %m : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
      -> tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>, tensor<6x10x7xf32>
  return
}

// -----

func.func @K5_gradient_of_booleans(%q: tensor<6x10x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<6x7x5xf32>, %g: tensor<6x10x5xf32>,
    %o: tensor<6x10x5xf32>, %m: tensor<6x10xf32>, %mask: tensor<6x10x7xi1>) {
  // expected-error @+1 {{(K5) expected 'mask_gradient' if and only if the mask is of numbers}}
  %0:4 = repro.attention_gradient block = 4 scale = 0.5 mask(%mask : tensor<6x10x7xi1>)
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>) gradient(%g : tensor<6x10x5xf32>)
      results(%o, %m, %m : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
      -> tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>, tensor<6x10x7xf32>
  return
}

// -----

func.func @K5_mask_without_gradient(%q: tensor<6x10x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<6x7x5xf32>, %g: tensor<6x10x5xf32>,
    %o: tensor<6x10x5xf32>, %m: tensor<6x10xf32>, %mask: tensor<6x10x7xf32>) {
  // expected-error @+1 {{(K5) expected 'mask_gradient' if and only if the mask is of numbers}}
  %0:3 = repro.attention_gradient block = 4 scale = 0.5 mask(%mask : tensor<6x10x7xf32>)
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>) gradient(%g : tensor<6x10x5xf32>)
      results(%o, %m, %m : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
      -> tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>
  return
}

// -----

func.func @K5_mask_gradient(%q: tensor<6x10x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<6x7x5xf32>, %g: tensor<6x10x5xf32>,
    %o: tensor<6x10x5xf32>, %m: tensor<6x10xf32>, %mask: tensor<6x10x7xf32>) {
  // expected-error @+1 {{(K5) expected 'mask_gradient' of type 'tensor<6x10x7xf32>', got 'tensor<1x10x7xf32>'}}
  %0:4 = repro.attention_gradient block = 4 scale = 0.5 mask(%mask : tensor<6x10x7xf32>)
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>) gradient(%g : tensor<6x10x5xf32>)
      results(%o, %m, %m : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
      -> tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<6x7x5xf32>, tensor<1x10x7xf32>
  return
}
