// (V4) No program may observe the bits of a NaN: each operation that could is an error.
// RUN: %repro-opt --repro-verify-canonical --split-input-file --verify-diagnostics %s

#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>, %h: tensor<4xf16>, %n: tensor<4xi32>, %o: tensor<4xi32>, %p: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %nan = arith.constant 0x7fc00000 : i32
  %0:2 = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %n : tensor<4xf32>, tensor<4xi32>) outs(%o, %p : tensor<4xi32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: i32, %c: i32, %d: f32):
    %u = arith.cmpf uno, %a, %a : f32
    %v = arith.bitcast %a : f32 to i32
    %s = arith.select %u, %nan, %v : i32
    %t = arith.select %u, %nan, %v : i32
    %m = arith.addi %s, %t : i32
    // A float may have any bits.
    %f = arith.bitcast %b : i32 to f32
    linalg.yield %m, %f : i32, f32
  } -> (tensor<4xi32>, tensor<4xf32>)
  return
}

// -----

// (V1) A storage type is compared as the exact f32.
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xbf16>, %o: tensor<4xi16>) attributes {repro.num_state = 0 : i64} {
  %nan = arith.constant 0x7fc0 : i16
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xbf16>) outs(%o : tensor<4xi16>) {
  ^bb0(%a: bf16, %c: i16):
    %w = arith.extf %a : bf16 to f32
    %u = arith.cmpf uno, %w, %w : f32
    %v = arith.bitcast %a : bf16 to i16
    %s = arith.select %u, %nan, %v : i16
    linalg.yield %s : i16
  } -> tensor<4xi16>
  return
}

// -----

// The comparison reads the extension of another value.
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xbf16>, %y: tensor<4xbf16>, %o: tensor<4xi16>) attributes {repro.num_state = 0 : i64} {
  %nan = arith.constant 0x7fc0 : i16
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<4xbf16>, tensor<4xbf16>) outs(%o : tensor<4xi16>) {
  ^bb0(%a: bf16, %b: bf16, %c: i16):
    %w = arith.extf %a : bf16 to f32
    %z = arith.extf %b : bf16 to f32
    %u = arith.cmpf uno, %w, %z : f32
    // expected-error @+1 {{(V4) expected every use to be select}}
    %v = arith.bitcast %a : bf16 to i16
    %s = arith.select %u, %nan, %v : i16
    linalg.yield %s : i16
  } -> tensor<4xi16>
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>, %o: tensor<4xi32>) attributes {repro.num_state = 0 : i64} {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%o : tensor<4xi32>) {
  ^bb0(%a: f32, %c: i32):
    // expected-error @+1 {{(V4) expected every use to be select(cmpf uno x, x; bits of the canonical NaN; bitcast x), got 'linalg.yield'}}
    %v = arith.bitcast %a : f32 to i32
    linalg.yield %v : i32
  } -> tensor<4xi32>
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>, %o: tensor<4xi32>) attributes {repro.num_state = 0 : i64} {
  %nan = arith.constant 0x7fc00001 : i32
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%o : tensor<4xi32>) {
  ^bb0(%a: f32, %c: i32):
    %u = arith.cmpf uno, %a, %a : f32
    // expected-error @+1 {{(V4) expected every use to be select}}
    %v = arith.bitcast %a : f32 to i32
    %s = arith.select %u, %nan, %v : i32
    linalg.yield %s : i32
  } -> tensor<4xi32>
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %o: tensor<4xi32>) attributes {repro.num_state = 0 : i64} {
  %nan = arith.constant 0x7fc00000 : i32
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%o : tensor<4xi32>) {
  ^bb0(%a: f32, %b: f32, %c: i32):
    // The comparison reads another value.
    %u = arith.cmpf uno, %a, %b : f32
    // expected-error @+1 {{(V4) expected every use to be select}}
    %v = arith.bitcast %a : f32 to i32
    %s = arith.select %u, %nan, %v : i32
    linalg.yield %s : i32
  } -> tensor<4xi32>
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>, %o: tensor<4xi32>) attributes {repro.num_state = 0 : i64} {
  %nan = arith.constant 0x7fc00000 : i32
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%o : tensor<4xi32>) {
  ^bb0(%a: f32, %c: i32):
    // The comparison is inverted.
    %u = arith.cmpf ord, %a, %a : f32
    // expected-error @+1 {{(V4) expected every use to be select}}
    %v = arith.bitcast %a : f32 to i32
    %s = arith.select %u, %nan, %v : i32
    linalg.yield %s : i32
  } -> tensor<4xi32>
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>, %o: tensor<4xi32>) attributes {repro.num_state = 0 : i64} {
  %nan = arith.constant 0x7fc00000 : i32
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%o : tensor<4xi32>) {
  ^bb0(%a: f32, %c: i32):
    %u = arith.cmpf uno, %a, %a : f32
    // Only one of two uses is a select.
    // expected-error @+1 {{bitcast x), got 'arith.addi'}}
    %v = arith.bitcast %a : f32 to i32
    %s = arith.select %u, %nan, %v : i32
    %t = arith.addi %s, %v : i32
    linalg.yield %t : i32
  } -> tensor<4xi32>
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf16>, %o: tensor<4xbf16>) attributes {repro.num_state = 0 : i64} {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf16>) outs(%o : tensor<4xbf16>) {
  ^bb0(%a: f16, %c: bf16):
    // expected-error @+1 {{(V4) expected a cast to or from an integer, got 'f16' to 'bf16'}}
    %v = arith.bitcast %a : f16 to bf16
    linalg.yield %v : bf16
  } -> tensor<4xbf16>
  return
}

// -----

// An operation in the function's own block could be requested as a program of its own.
func.func @main(%x: tensor<f32>) attributes {repro.num_state = 0 : i64} {
  %a = tensor.extract %x[] : tensor<f32>
  %nan = arith.constant 0x7fc00000 : i32
  %u = arith.cmpf uno, %a, %a : f32
  // expected-error @+1 {{(V4) expected the bits of a float only in the body of another operation}}
  %v = arith.bitcast %a : f32 to i32
  %s = arith.select %u, %nan, %v : i32
  return
}

// -----

// The float itself may be an extension.
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>, %o: tensor<4xi64>) attributes {repro.num_state = 0 : i64} {
  %nan = arith.constant 0x7ff8000000000000 : i64
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%o : tensor<4xi64>) {
  ^bb0(%a: f32, %c: i64):
    %w = arith.extf %a : f32 to f64
    %u = arith.cmpf uno, %w, %w : f64
    %v = arith.bitcast %w : f64 to i64
    %s = arith.select %u, %nan, %v : i64
    linalg.yield %s : i64
  } -> tensor<4xi64>
  return
}
