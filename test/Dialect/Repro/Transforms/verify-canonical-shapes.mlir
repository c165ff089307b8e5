// (A1) to (A4) Sizes and accesses that a canonical program must not have. The verifiers of MLIR's own operations
// reject some others with messages of their own.
// RUN: %repro-opt --repro-verify-canonical --split-input-file --verify-diagnostics %s

// The map descends below 0.
func.func @main(%x: tensor<4xf32>, %o: tensor<4x4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A2) result #0 of indexing map #0 goes from -3 to 3, expected 0 to 3}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 - d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4xf32>) outs(%o : tensor<4x4xf32>) {
  ^bb0(%a: f32, %c: f32):
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>, %o: tensor<8xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A2) result #0 of indexing map #0 goes from 0 to 4, expected 0 to 3}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0 mod 5)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%o : tensor<8xf32>) {
  ^bb0(%a: f32, %c: f32):
    linalg.yield %a : f32
  } -> tensor<8xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>, %o: tensor<8xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A2) result #0 of indexing map #0 goes from 0 to 6, expected 0 to 3}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (((d0 floordiv 2) * 3 + d0 mod 2) mod 7)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%o : tensor<8xf32>) {
  ^bb0(%a: f32, %c: f32):
    linalg.yield %a : f32
  } -> tensor<8xf32>
  return
}

// -----

func.func @main(%x: tensor<0xf32>, %o: tensor<8xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A2) result #0 of indexing map #0 goes from 0 to 0, expected 0 to -1}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<0xf32>) outs(%o : tensor<8xf32>) {
  ^bb0(%a: f32, %c: f32):
    linalg.yield %a : f32
  } -> tensor<8xf32>
  return
}

// -----

// MLIR's verifier adds 1 to the index without a check.
func.func @main(%x: tensor<8xf32>, %o: tensor<0xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A2) expected indices below 2^63 - 1}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (9223372036854775807)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%o : tensor<0xf32>) {
  ^bb0(%a: f32, %c: f32):
    linalg.yield %a : f32
  } -> tensor<0xf32>
  return
}

// -----

func.func @main(%x: tensor<8xf32>, %z: tensor<0xf32>, %i: tensor<f32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A2) expected indices below 2^63 - 1}}
  %0 = repro.fold #repro.any_order maps [affine_map<(d0) -> (-(d0 * 9223372036854775807))>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>] iterators [reduction]
      ins(%x, %z : tensor<8xf32>, tensor<0xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %1 = arith.maximumf %a, %b : f32
    %2 = arith.maximumf %1, %acc : f32
    repro.yield %2 : f32
  } -> tensor<f32>
  return
}

// -----

// No element is read, but the extents contradict each other.
func.func @main(%x: tensor<0x8xf32>, %o: tensor<0x0xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A1) dimension 1 of operand #1 is 0, but the extent of iterator 1 is 8}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<0x8xf32>) outs(%o : tensor<0x0xf32>) {
  ^bb0(%a: f32, %c: f32):
    linalg.yield %a : f32
  } -> tensor<0x0xf32>
  return
}

// -----

// expected-error @+1 {{(A4) expected a tensor of at most 2^40 bytes, got 'tensor<6148914691236517206x3xi8>'}}
func.func @main(%x: tensor<6148914691236517206x3xi8>) attributes {repro.num_state = 0 : i64} {
  %0 = tensor.empty() : tensor<1xi8>
  return
}

// -----

func.func @main(%x: tensor<1xi8>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A4) expected a tensor of at most 2^40 bytes, got 'tensor<0x4611686018427387904x4xi8>'}}
  %0 = tensor.empty() : tensor<0x4611686018427387904x4xi8>
  return
}

// -----

func.func @main(%x: tensor<1xi8>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A4) expected a tensor of at most 2^40 bytes, got 'tensor<1099511627777xi1>'}}
  %0 = tensor.empty() : tensor<1099511627777xi1>
  return
}

// -----

func.func @main(%x: tensor<1xi8>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A4) expected at most 24 dimensions, got 25 of 'tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xi1>'}}
  %0 = tensor.empty() : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xi1>
  return
}

// -----

func.func @main(%x: tensor<1xi8>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A4) expected at most 2^32 bytes in all constants of the program}}
  %0 = arith.constant dense<0> : tensor<8589934592xi8>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a slice of dimension 0 within its 4 elements, got offset 0, size 2 and stride 0}}
  %0 = tensor.extract_slice %x[0] [2] [0] : tensor<4xf32> to tensor<2xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>, %y: tensor<2xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a slice of dimension 0 within its 4 elements, got offset 0, size 2 and stride 0}}
  %0 = tensor.insert_slice %y into %x[0] [2] [0] : tensor<2xf32> into tensor<4xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a slice of dimension 0 within its 4 elements, got offset 0, size 2 and stride -1}}
  %0 = tensor.extract_slice %x[0] [2] [-1] : tensor<4xf32> to tensor<2xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>, %y: tensor<2xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a slice of dimension 0 within its 4 elements, got offset 0, size 2 and stride -1}}
  %0 = tensor.insert_slice %y into %x[0] [2] [-1] : tensor<2xf32> into tensor<4xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a slice of dimension 0 within its 4 elements, got offset 3, size 2 and stride -1}}
  %0 = tensor.extract_slice %x[3] [2] [-1] : tensor<4xf32> to tensor<2xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>, %y: tensor<2xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a slice of dimension 0 within its 4 elements, got offset 3, size 2 and stride -1}}
  %0 = tensor.insert_slice %y into %x[3] [2] [-1] : tensor<2xf32> into tensor<4xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a slice of dimension 0 within its 4 elements, got offset 0, size 3 and stride 4611686018427387904}}
  %0 = tensor.extract_slice %x[0] [3] [4611686018427387904] : tensor<4xf32> to tensor<3xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>, %y: tensor<3xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a slice of dimension 0 within its 4 elements, got offset 0, size 3 and stride 4611686018427387904}}
  %0 = tensor.insert_slice %y into %x[0] [3] [4611686018427387904] : tensor<3xf32> into tensor<4xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a slice of dimension 0 within its 4 elements, got offset 0, size 5 and stride 4611686018427387904}}
  %0 = tensor.extract_slice %x[0] [5] [4611686018427387904] : tensor<4xf32> to tensor<5xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>, %y: tensor<5xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a slice of dimension 0 within its 4 elements, got offset 0, size 5 and stride 4611686018427387904}}
  %0 = tensor.insert_slice %y into %x[0] [5] [4611686018427387904] : tensor<5xf32> into tensor<4xf32>
  return
}

// -----

func.func @main(%x: tensor<6xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected a result of shape [3, 3], got 'tensor<2x3xf32>'}}
  %0 = tensor.expand_shape %x [[0, 1]] output_shape [3, 3] : tensor<6xf32> into tensor<2x3xf32>
  return
}

// -----

func.func @main(%x: tensor<2x3xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected each dimension in one group}}
  %0 = tensor.collapse_shape %x [] : tensor<2x3xf32> into tensor<f32>
  return
}

// -----

func.func @main(%x: tensor<f32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A3) expected each dimension in one group}}
  %0 = tensor.expand_shape %x [] output_shape [2] : tensor<f32> into tensor<2xf32>
  return
}

// -----

// expected-error @+1 {{(A4) expected a tensor of at most 2^40 bytes, got 'tensor<4294967296x4294967296xf32>'}}
func.func @main(%x: tensor<4294967296x4294967296xf32>) attributes {repro.num_state = 0 : i64} {
  %0 = tensor.empty() : tensor<1xf32>
  return
}

// -----

func.func @main(%x: tensor<2xf32>) attributes {repro.num_state = 0 : i64} {
  %i = arith.constant 1 : index
  // expected-error @+1 {{(A3) expected a constant dimension from 0 to 0}}
  %0 = tensor.dim %x, %i : tensor<2xf32>
  return
}

// -----

func.func @main(%x: tensor<2xf32>, %y: tensor<i64>) attributes {repro.num_state = 0 : i64} {
  %j = tensor.extract %y[] : tensor<i64>
  %i = arith.index_cast %j : i64 to index
  // expected-error @+1 {{(A3) expected a constant dimension from 0 to 0}}
  %0 = tensor.dim %x, %i : tensor<2xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>, %y: tensor<f32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 0.0 : f32
  // expected-error @+1 {{(A3) expected padding of less than 2^63, got 9223372036854775807 and 9223372036854775807}}
  %0 = tensor.pad %x low[9223372036854775807] high[9223372036854775807] {
  ^bb0(%n: index):
    tensor.yield %c : f32
  } : tensor<4xf32> to tensor<2xf32>
  return
}

// -----

// The program has too many iterations.
func.func @main(%x: tensor<1099511627776xi8>, %y: tensor<1099511627776xi8>, %o: tensor<i8>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(A4) expected at most 2^60 iterations}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> ()>] iterators [reduction, reduction]
      ins(%x, %y : tensor<1099511627776xi8>, tensor<1099511627776xi8>) outs(%o : tensor<i8>) {
  ^bb0(%a: i8, %b: i8, %c: i8):
    %d = arith.addi %a, %c : i8
    repro.yield %d : i8
  } -> tensor<i8>
  return
}
