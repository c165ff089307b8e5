// RUN: %repro-opt %s --repro-expand-functions --split-input-file --verify-diagnostics

// An exponent must fit into an i64.
func.func @lanes(%x: f32, %n: i128) -> f32 {
  // expected-error @+1 {{expected f32 or f64 scalars or vectors of equal shape, and exponents of at most 64 bits, got 'f32', 'i128'}}
  %0 = repro.powi %x, %n : f32, i128
  return %0 : f32
}

// -----

// (V1) Storage types do not compute.
func.func @storage(%x: vector<8xbf16>) -> vector<8xbf16> {
  // expected-error @+1 {{expected f32 or f64 scalars or vectors of equal shape, and exponents of at most 64 bits, got 'vector<8xbf16>'}}
  %0 = repro.rsqrt %x : vector<8xbf16>
  return %0 : vector<8xbf16>
}
