// RUN: %repro-opt %s --split-input-file --verify-diagnostics

func.func @type(%x: tensor<2xf32>) {
  // expected-error @+1 {{(T2) the operand is 'tensor<2xf32>', expected the result's type, 'tensor<3xf32>'}}
  %0 = repro.broadcast owner = 0 stage = 0 of %x : tensor<2xf32> -> tensor<3xf32>
  return
}

// -----

func.func @shape() {
  // expected-error @+1 {{(T2) expected a static shape, got 'tensor<?xf32>'}}
  %0 = repro.broadcast owner = 0 stage = 0 -> tensor<?xf32>
  return
}

// -----

func.func @owner() {
  // expected-error @+1 {{(T2) owner and stage are -1 and 0, expected none of them negative}}
  %0 = repro.broadcast owner = -1 stage = 0 -> tensor<2xf32>
  return
}
