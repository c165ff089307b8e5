// RUN: %repro-opt --allow-unregistered-dialect --convert-tm-tensor-to-repro --split-input-file --verify-diagnostics %s

func.func @D1_body(%u: tensor<6xf32>, %i: tensor<6x1xi64>, %o: tensor<10xf32>) -> tensor<10xf32> {
  // expected-error @+1 {{(D1) expected a body that adds, multiplies, takes the maximum or minimum, or replaces}}
  %0 = "tm_tensor.scatter"(%u, %i, %o) <{dimension_map = array<i64: 0>, operandSegmentSizes = array<i32: 2, 1>}> ({
  ^bb0(%a: f32, %b: f32):
    %1 = arith.subf %b, %a : f32
    "tm_tensor.yield"(%1) : (f32) -> ()
  }) : (tensor<6xf32>, tensor<6x1xi64>, tensor<10xf32>) -> tensor<10xf32>
  return %0 : tensor<10xf32>
}

// -----

func.func @D1_map(%u: tensor<6xf32>, %i: tensor<6x2xi64>, %o: tensor<10x8xf32>) -> tensor<10x8xf32> {
  // expected-error @+1 {{(D1) index column 0 names dimension 1, expected the leading dimensions in order}}
  %0 = "tm_tensor.scatter"(%u, %i, %o) <{dimension_map = array<i64: 1, 0>, operandSegmentSizes = array<i32: 2, 1>}> ({
  ^bb0(%a: f32, %b: f32):
    "tm_tensor.yield"(%a) : (f32) -> ()
  }) : (tensor<6xf32>, tensor<6x2xi64>, tensor<10x8xf32>) -> tensor<10x8xf32>
  return %0 : tensor<10x8xf32>
}

// -----

func.func @D1_updates(%u: tensor<6x2x4xf32>, %i: tensor<6x1xi64>, %o: tensor<10x8xf32>) -> tensor<10x8xf32> {
  // expected-error @+1 {{(D1) expected updates of shape 'tensor<6x8xf32>', got 'tensor<6x2x4xf32>'}}
  %0 = "tm_tensor.scatter"(%u, %i, %o) <{dimension_map = array<i64: 0>, operandSegmentSizes = array<i32: 2, 1>}> ({
  ^bb0(%a: f32, %b: f32):
    "tm_tensor.yield"(%a) : (f32) -> ()
  }) : (tensor<6x2x4xf32>, tensor<6x1xi64>, tensor<10x8xf32>) -> tensor<10x8xf32>
  return %0 : tensor<10x8xf32>
}

// -----

func.func @D2_comparator(%k: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{(D2) expected a comparator that compares the first operand, ascending or descending}}
  %0 = "tm_tensor.sort"(%k) <{dimension = 0 : i64, operandSegmentSizes = array<i32: 0, 1>}> ({
  ^bb0(%a: f32, %b: f32):
    %1 = arith.cmpf oeq, %a, %b : f32
    "tm_tensor.yield"(%1) : (i1) -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @D3_exclusive(%x: tensor<8xf32>, %c: tensor<f32>) -> tensor<8xf32> {
  // expected-error @+1 {{(D3) expected 'dimension' and 'inclusive = true'}}
  %0:2 = "tm_tensor.scan"(%x, %x, %c) <{dimension = 0 : i64, inclusive = false, operandSegmentSizes = array<i32: 1, 2>}> ({
  ^bb0(%a: f32, %b: f32):
    %1 = arith.addf %a, %b : f32
    "tm_tensor.yield"(%1) : (f32) -> ()
  }) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<f32>)
  return %0#0 : tensor<8xf32>
}

// -----

func.func @D3_body(%x: tensor<8xf32>, %c: tensor<f32>) -> tensor<8xf32> {
  // expected-error @+1 {{(D3) expected a body that adds, multiplies or takes an extreme}}
  %0:2 = "tm_tensor.scan"(%x, %x, %c) <{dimension = 0 : i64, inclusive = true, operandSegmentSizes = array<i32: 1, 2>}> ({
  ^bb0(%a: f32, %b: f32):
    "tm_tensor.yield"(%a) : (f32) -> ()
  }) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<f32>)
  return %0#0 : tensor<8xf32>
}

// -----

func.func @D3_carry(%x: tensor<8xf32>, %c: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{(D3) the last carry has uses, expected none}}
  %0:2 = "tm_tensor.scan"(%x, %x, %c) <{dimension = 0 : i64, inclusive = true, operandSegmentSizes = array<i32: 1, 2>}> ({
  ^bb0(%a: f32, %b: f32):
    %1 = arith.addf %a, %b : f32
    "tm_tensor.yield"(%1) : (f32) -> ()
  }) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<f32>)
  return %0#1 : tensor<f32>
}

// -----

func.func @dynamic(%k: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{expected operands of static shape, got 'tensor<?xf32>'}}
  %0 = "tm_tensor.sort"(%k) <{dimension = 0 : i64, operandSegmentSizes = array<i32: 0, 1>}> ({
  ^bb0(%a: f32, %b: f32):
    %1 = arith.cmpf olt, %a, %b : f32
    "tm_tensor.yield"(%1) : (i1) -> ()
  }) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func @unknown(%k: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{is not supported: expected tm_tensor.scatter, tm_tensor.scan, tm_tensor.sort or tm_tensor.topk}}
  %0 = "tm_tensor.attention"(%k) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
