// One program for each violation of the contract of canonical programs.
// RUN: %repro-opt --repro-verify-canonical --split-input-file --verify-diagnostics %s

// expected-error @+1 {{expected the function '@main', got none}}
module {}

// -----

// expected-error @+1 {{(H2) attribute 'test.flag' of the module: expected none}}
module attributes {test.flag} {
  func.func @main() attributes {repro.num_state = 0 : i64} {
    return
  }
}

// -----

func.func @main() attributes {repro.num_state = 0 : i64} {
  return
}
// expected-error @+1 {{expected only the public function '@main'}}
func.func @other() {
  return
}

// -----

module {
  // expected-error @+1 {{expected only the function '@main' in a canonical module}}
  module {}
}

// -----

// expected-error @+1 {{expected a body of one block, got 2}}
func.func @main() attributes {repro.num_state = 0 : i64} {
  cf.br ^next
^next:
  return
}

// -----

// expected-error @+1 {{(H2) attribute 'llvm.emit_c_interface': expected only 'repro.num_state'}}
func.func @main() attributes {repro.num_state = 0 : i64, llvm.emit_c_interface} {
  return
}

// -----

// expected-error @+1 {{(H2) attribute 'no_inline': expected none}}
func.func @main() attributes {repro.num_state = 0 : i64, no_inline} {
  return
}

// -----

// expected-error @+1 {{expected the attribute 'repro.num_state'}}
func.func @main() {
  return
}

// -----

// expected-error @+1 {{state #0 is an argument of type 'tensor<2xf32>' and a result of type 'tensor<3xf32>', expected the same}}
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<3xf32> attributes {repro.num_state = 1 : i64} {
  return %b : tensor<3xf32>
}

// -----

// expected-error @+1 {{expected tensors as arguments and results, got 'f32'}}
func.func @main(%a: f32) attributes {repro.num_state = 0 : i64} {
  return
}

// -----

// expected-error @+1 {{(H2) attribute 'test.x' of argument 1: expected only 'repro.name'}}
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32> {test.x}) attributes {repro.num_state = 0 : i64} {
  return
}

// -----

// expected-error @+1 {{(H2) attribute 'test.x' of result 0: expected only 'repro.name'}}
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32> {test.x}) attributes {repro.num_state = 0 : i64} {
  return %a : tensor<2xf32>
}

// -----

// expected-error @+1 {{expected a static shape, got 'tensor<?xf32>'}}
func.func @main(%a: tensor<?xf32>) attributes {repro.num_state = 0 : i64} {
  return
}

// -----

// expected-error @+1 {{expected a tensor without encoding, got 'tensor<2xf32, "csr">'}}
func.func @main(%a: tensor<2xf32, "csr">) attributes {repro.num_state = 0 : i64} {
  return
}

// -----

// expected-error @+1 {{(V1) element type 'complex<f32>' is not supported}}
func.func @main(%a: tensor<2xcomplex<f32>>) attributes {repro.num_state = 0 : i64} {
  return
}

// -----

// expected-error @+1 {{(V1) element type 'i7' is not supported}}
func.func @main(%a: tensor<2xi7>) attributes {repro.num_state = 0 : i64} {
  return
}

// -----

// expected-error @+1 {{(V1) element type 'si32' is not supported}}
func.func @main(%a: tensor<2xsi32>) attributes {repro.num_state = 0 : i64} {
  return
}

// -----

// expected-error @+1 {{(V1) element type 'index' is not supported}}
func.func @main(%a: tensor<2xindex>) attributes {repro.num_state = 0 : i64} {
  return
}

// -----

// expected-error @+1 {{(V1) element type 'f80' is not supported}}
func.func @main(%a: tensor<2xf80>) attributes {repro.num_state = 0 : i64} {
  return
}

// -----

func.func @main(%x: tensor<4xbf16>, %o: tensor<4xi1>) attributes {repro.num_state = 0 : i64} {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xbf16>) outs(%o : tensor<4xi1>) {
  ^bb0(%a: bf16, %b: i1):
    // expected-error @+1 {{(V1) computes on a storage type: 'repro-widen-storage' makes it compute in f32}}
    %c = arith.cmpf olt, %a, %a : bf16
    linalg.yield %c : i1
  } -> tensor<4xi1>
  return
}

// -----

func.func @main(%x: tensor<f8E5M2>) attributes {repro.num_state = 0 : i64} {
  %a = tensor.extract %x[] : tensor<f8E5M2>
  // expected-error @+1 {{(V1) computes on a storage type}}
  %b = repro.exp %a : f8E5M2
  return
}

// -----

// expected-error @+1 {{(V1) element type 'f8E4M3FNUZ' is not supported}}
func.func @main(%a: tensor<2xf8E4M3FNUZ>) attributes {repro.num_state = 0 : i64} {
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(V1) type 'vector<4xf32>' is not supported: expected index, i1}}
  %0 = arith.constant dense<0.0> : vector<4xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %true = arith.constant true
  %i = arith.constant 0 : index
  // expected-error @+1 {{is not an operation of a canonical program: docs/contributors/architecture.md lists these}}
  %0 = scf.if %true -> f32 {
    %1 = tensor.extract %x[%i] : tensor<4xf32>
    scf.yield %1 : f32
  } else {
    %1 = tensor.extract %x[%i] : tensor<4xf32>
    scf.yield %1 : f32
  }
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 1.0 : f32
  // expected-error @+1 {{'math.exp' op is not an operation of a canonical program}}
  %0 = math.exp %c : f32
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 1.0 : f32
  // expected-error @+1 {{'arith.maxnumf' op is not an operation of a canonical program}}
  %0 = arith.maxnumf %c, %c : f32
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 1.0 : f32
  // expected-error @+1 {{'math.tanh' op is not an operation of a canonical program}}
  %0 = math.tanh %c : f32
  return
}

// -----

func.func @main(%x: tensor<2x4xf32>, %y: tensor<4x2xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{'linalg.transpose' op is not an operation of a canonical program}}
  %0 = linalg.transpose ins(%x : tensor<2x4xf32>) outs(%y : tensor<4x2xf32>) permutation = [1, 0]
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 1.0 : f32
  // expected-error @+1 {{(V3) expected no 'fastmath', got #arith.fastmath<contract>}}
  %0 = arith.addf %c, %c fastmath<contract> : f32
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 1 : i32
  // expected-error @+1 {{(V3) expected no 'overflowFlags', got #arith.overflow<nsw>}}
  %0 = arith.addi %c, %c overflow<nsw> : i32
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 1 : i32
  // expected-error @+1 {{(V3) expected no 'isExact', got unit}}
  %0 = arith.divsi %c, %c exact : i32
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 1.0 : f64
  // expected-error @+1 {{(V3) expected no 'roundingmode', got 0 : i32}}
  %0 = arith.truncf %c to_nearest_even : f64 to f32
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(H2) attribute 'test.flag' is discardable: expected no discardable attribute}}
  %c = arith.constant {test.flag} 1.0 : f64
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(H2) expected the value itself as integer, float or dense elements}}
  %c = arith.constant dense_resource<x> : tensor<2xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{expected scalars: arithmetic on tensors is a linalg.generic}}
  %c = arith.addf %x, %x : tensor<4xf32>
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
#s = affine_map<(d0) -> ()>
func.func @main(%x: tensor<4xf32>, %y: tensor<f32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(F1) has 1 iterators that are not parallel: a reduction is a repro.fold}}
  %0 = linalg.generic {indexing_maps = [#id, #s], iterator_types = ["reduction"]}
      ins(%x : tensor<4xf32>) outs(%y : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %b = arith.addf %a, %acc : f32
    linalg.yield %b : f32
  } -> tensor<f32>
  return
}

// -----

#a = affine_map<(d0, d1) -> (d0, d1)>
#o = affine_map<(d0, d1) -> (d0, 0)>
func.func @main(%x: tensor<4x1xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{expected a permutation as map of output #0, got affine_map<(d0, d1) -> (d0, 0)>}}
  %0 = linalg.generic {indexing_maps = [#a, #o], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x1xf32>) outs(%x : tensor<4x1xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<4x1xf32>
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %e = tensor.empty() : tensor<4xf32>
  // expected-error @+1 {{(F6) reads operand #1, which is a tensor.empty without a defined element}}
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %b = arith.addf %a, %out : f32
    linalg.yield %b : f32
  } -> tensor<4xf32>
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
#s = affine_map<(d0) -> ()>
func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %e = tensor.empty() : tensor<f32>
  // expected-error @+1 {{(F6) reads operand #1, which is a tensor.empty without a defined element}}
  %0 = repro.fold #repro.any_order maps [#id, #s] iterators [reduction]
      ins(%x : tensor<4xf32>) outs(%e : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %b = arith.maximumf %a, %acc : f32
    repro.yield %b : f32
  } -> tensor<f32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %i = arith.constant 1 : index
  // expected-error @+1 {{(A3) expected static offsets, sizes and strides}}
  %0 = tensor.extract_slice %x[%i] [2] [1] : tensor<4xf32> to tensor<2xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %i = arith.constant 1 : index
  %c = arith.constant 0.0 : f32
  // expected-error @+1 {{(A3) expected static padding}}
  %0 = tensor.pad %x low[%i] high[1] {
  ^bb0(%n: index):
    tensor.yield %c : f32
  } : tensor<4xf32> to tensor<6xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 0.0 : f32
  // expected-error @+1 {{(A3) expected padding that is not negative}}
  %0 = tensor.pad %x low[-1] high[1] {
  ^bb0(%n: index):
    tensor.yield %c : f32
  } : tensor<4xf32> to tensor<4xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %0 = tensor.pad %x low[1] high[1] {
  ^bb0(%n: index):
    // expected-error @+1 {{expected a padding value from outside of the body of 'tensor.pad'}}
    %c = arith.constant 0.0 : f32
    tensor.yield %c : f32
  } : tensor<4xf32> to tensor<6xf32>
  return
}

// -----

#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) {
  ^bb0(%a: f32, %out: f32):
    // expected-error @+1 {{expected in the block of the function, found in the body of 'linalg.generic'}}
    %e = tensor.empty() : tensor<4xf32>
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 7 : i32
  // expected-error @+1 {{'arith.ceildivsi' op is not an operation of a canonical program}}
  %0 = arith.ceildivsi %c, %c : i32
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(V1) type 'i7' is not supported}}
  %c = arith.constant 7 : i7
  return
}

// -----

func.func @main(%x: tensor<4xf32>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 1.0 : f64
  // expected-error @+1 {{(V3) expected no 'roundingmode', got 3 : i32}}
  %0 = arith.truncf %c toward_zero : f64 to f32
  return
}

// -----

func.func @main(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<f32> attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(P0) expected an order}}
  %0 = repro.fold maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<4xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %p = arith.addf %e, %acc : f32
    repro.yield %p : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @main(%x: tensor<2x4xf32>, %w: tensor<6x4xf32>, %o: tensor<2x6xf32>) -> tensor<2x6xf32> attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{is not an operation of a canonical program: 'repro-decompose-convolution' decomposes it}}
  %0 = repro.convolution strides = [] padding_low = [] padding_high = [] input_dilation = [] kernel_dilation = []
      window_reversal = [] feature_groups = 1 batch_groups = 1
      ins(%x, %w : tensor<2x4xf32>, tensor<6x4xf32>) outs(%o : tensor<2x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @main(%q: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{is not an operation of a canonical program: 'repro-decompose-attention' decomposes it}}
  %0:3 = repro.attention block = 2 scale = 0.5 ins(%q, %q, %q : tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>)
      -> tensor<2x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  return %0#0 : tensor<2x4x4xf32>
}

// -----

func.func @main(%e: tensor<4xi1>) -> tensor<4xi1> attributes {repro.num_state = 0 : i64} {
  %0 = arith.constant 0 : i64
  // expected-error @+1 {{(R2) expected 'bits' or 'uniform', got 'bernoulli', which repro-decompose-distributions writes out}}
  %1 = repro.random bernoulli probability = 0.5 site = 0 ins(%0, %0 : i64, i64) outs(%e : tensor<4xi1>) -> tensor<4xi1>
  return %1 : tensor<4xi1>
}

// -----

func.func @main(%x: tensor<f32>) attributes {repro.num_state = 0 : i64} {
  %a = tensor.extract %x[] : tensor<f32>
  // expected-error @+1 {{(V1) no rule converts to 'f8E8M0FNU'}}
  %b = arith.truncf %a : f32 to f8E8M0FNU
  return
}

// -----

func.func @main(%x: tensor<i64>) attributes {repro.num_state = 0 : i64} {
  %a = tensor.extract %x[] : tensor<i64>
  // expected-error @+1 {{(V1) no rule converts to 'f8E8M0FNU'}}
  %b = arith.uitofp %a : i64 to f8E8M0FNU
  return
}

// -----

func.func @main(%x: tensor<f4E2M1FN>) attributes {repro.num_state = 0 : i64} {
  %a = tensor.extract %x[] : tensor<f4E2M1FN>
  // expected-error @+1 {{(V1) no rule converts to 'f8E8M0FNU'}}
  %b = arith.extf %a : f4E2M1FN to f8E8M0FNU
  return
}

// -----

func.func @main(%x: tensor<f8E8M0FNU>) attributes {repro.num_state = 0 : i64} {
  %a = tensor.extract %x[] : tensor<f8E8M0FNU>
  // expected-error @+1 {{(V1) expected an exact extension, but 'f16' has not all values of 'f8E8M0FNU'}}
  %b = arith.extf %a : f8E8M0FNU to f16
  return
}

// -----

func.func @main(%x: tensor<f6E2M3FN>) attributes {repro.num_state = 0 : i64} {
  %a = tensor.extract %x[] : tensor<f6E2M3FN>
  // expected-error @+1 {{(V1) expected an exact extension, but 'f8E5M2' has not all values of 'f6E2M3FN'}}
  %b = arith.extf %a : f6E2M3FN to f8E5M2
  return
}

// -----

func.func @main(%x: tensor<f6E3M2FN>) attributes {repro.num_state = 0 : i64} {
  %a = tensor.extract %x[] : tensor<f6E3M2FN>
  // expected-error @+1 {{(V1) computes on a storage type}}
  %b = arith.negf %a : f6E3M2FN
  return
}

// -----

// (V1) Folds and operations that move elements by their values do not accept f6, f4 and f8E8M0FNU.
func.func @main(%x: tensor<4xf4E2M1FN>) attributes {repro.num_state = 0 : i64} {
  %e = tensor.empty() : tensor<4xf4E2M1FN>
  // expected-error @+1 {{(V1) operand #0 is of type 'tensor<4xf4E2M1FN>'}}
  %0 = repro.sort ascending dimension = 0 ins(%x : tensor<4xf4E2M1FN>) outs(%e : tensor<4xf4E2M1FN>) -> tensor<4xf4E2M1FN>
  return
}

// -----

func.func @main(%x: tensor<f32>) attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(V1) expected a power of two as constant, got a negative number}}
  %b = arith.constant -1.0 : f8E8M0FNU
  return
}

// -----

// (Q4) The compiler derives this attribute; a canonical program must not have it.
func.func @main(%x: tensor<8x96xi8>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) -> tensor<8x8xf32>
    attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(H2) attribute 'magnitudes' is unknown to the identity}}
  %0 = repro.block_contraction split block = 32 rows = [1, 1] fraction_bits = 2 magnitudes = [12, 12]
      ins(%x, %s, %x, %s : tensor<8x96xi8>, tensor<8x3xf32>, tensor<8x96xi8>, tensor<8x3xf32>)
      outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// (M5) The compiler derives this attribute from the codes; a canonical program must not have it.
func.func @main(%x: tensor<8x96xf8E4M3FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) -> tensor<8x8xf32>
    attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(H2) attribute 'elements' is unknown to the identity}}
  %0 = repro.block_contraction split block = 32 rows = [1, 1]
      accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133> elements = [f4E2M1FN, f4E2M1FN]
      ins(%x, %s, %x, %s : tensor<8x96xf8E4M3FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf8E4M3FN>, tensor<8x3xf8E8M0FNU>)
      outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// (Q4) Only the compiler creates integers of i16.
func.func @main(%x: tensor<8x96xi16>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) -> tensor<8x8xf32>
    attributes {repro.num_state = 0 : i64} {
  // expected-error @+1 {{(Q4) expected integers of i8, got 'tensor<8x96xi16>'}}
  %0 = repro.block_contraction split block = 32 rows = [1, 1] fraction_bits = 12
      ins(%x, %s, %x, %s : tensor<8x96xi16>, tensor<8x3xf32>, tensor<8x96xi16>, tensor<8x3xf32>)
      outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
