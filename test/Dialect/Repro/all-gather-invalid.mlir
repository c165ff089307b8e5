// RUN: %repro-opt %s --split-input-file --verify-diagnostics

func.func @dimension(%x: tensor<2xf32>) {
  // expected-error @+1 {{(T2) dimension is 1, expected one of the result, 'tensor<4xf32>'}}
  %0 = repro.all_gather %x dimension = 1 blocks = 1 sizes = [2, 2] : tensor<2xf32> -> tensor<4xf32>
  return
}

// -----

func.func @blocks(%x: tensor<2xf32>) {
  // expected-error @+1 {{(T2) expected one block or more, and the size of the part of each rank, none of them negative}}
  %0 = repro.all_gather %x dimension = 0 blocks = 0 sizes = [2, 2] : tensor<2xf32> -> tensor<4xf32>
  return
}

// -----

func.func @sum(%x: tensor<2xf32>) {
  // expected-error @+1 {{(T2) dimension 0 of the result is 4, expected the sum of the sizes in 1 blocks, 5}}
  %0 = repro.all_gather %x dimension = 0 blocks = 1 sizes = [2, 3] : tensor<2xf32> -> tensor<4xf32>
  return
}

// -----

func.func @part(%x: tensor<4xf32>) {
  // expected-error @+1 {{(T2) the operand is 'tensor<4xf32>', expected what one of the ranks has of 'tensor<4xf32>'}}
  %0 = repro.all_gather %x dimension = 0 blocks = 1 sizes = [2, 2] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @shape(%x: tensor<?xf32>) {
  // expected-error @+1 {{(T2) expected static shapes, got 'tensor<?xf32>' and 'tensor<4xf32>'}}
  %0 = repro.all_gather %x dimension = 0 blocks = 1 sizes = [2, 2] : tensor<?xf32> -> tensor<4xf32>
  return
}
