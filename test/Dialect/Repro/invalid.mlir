// One test per branch of the verifiers, named after the rule that it violates.
// RUN: %repro-opt %s -split-input-file -verify-diagnostics

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

// expected-error @+1 {{(F1) chunk must be positive, got 0}}
func.func private @F1_chunk_positive() attributes {o = #repro.order<chunk = 0, lanes = 1, run = 0, totals = sequential>}

// -----

// expected-error @+1 {{(F2) lanes must be a power of two of at most 1024, got 3}}
func.func private @F2_lanes_power_of_two() attributes {o = #repro.order<chunk = 8, lanes = 3, run = 0, totals = sequential>}

// -----

// expected-error @+1 {{(F2) lanes must be a power of two of at most 1024, got 0}}
func.func private @F2_lanes_positive() attributes {o = #repro.order<chunk = 8, lanes = 0, run = 0, totals = sequential>}

// -----

// expected-error @+1 {{(F2) lanes must be a power of two of at most 1024, got 2048}}
func.func private @F2_lanes_bounded() attributes {o = #repro.order<chunk = 8, lanes = 2048, run = 0, totals = sequential>}

// -----

// expected-error @+1 {{(F1) run must not be negative, got -1}}
func.func private @F1_run_not_negative() attributes {o = #repro.order<chunk = 8, lanes = 1, run = -1, totals = sequential>}

// -----

// Folding n chunk results in chunks of one element would return n results forever.
// expected-error @+1 {{(F3) refold needs a chunk of at least 2, got 1}}
func.func private @F3_refold_ends() attributes {o = #repro.order<chunk = 1, lanes = 1, run = 0, totals = refold>}

// -----

// expected-error @+2 {{expected ::mlir::repro::Totals to be one of: sequential, refold}}
// expected-error @+1 {{failed to parse Repro_OrderAttr parameter 'totals'}}
func.func private @F3_totals() attributes {o = #repro.order<chunk = 1, lanes = 1, run = 0, totals = tree>}

// -----

// expected-error @+1 {{(K4) digits must be 2 or 3, got 4}}
func.func private @K4_digits() attributes {o = #repro.exact<digits = 4>}

// -----

// expected-error @+1 {{(M1) terms must be 1 to 128, got 0}}
func.func private @M1_no_terms() attributes {o = #repro.fdpa<terms = 0, fraction = 25, round = rz_f32, floor = 0>}

// -----

// expected-error @+1 {{(M1) terms must be 1 to 128, got 129}}
func.func private @M1_terms() attributes {o = #repro.fdpa<terms = 129, fraction = 25, round = rz_f32, floor = 0>}

// -----

// expected-error @+1 {{(M1) fraction must be 10 to 40, got 9}}
func.func private @M1_fraction() attributes {o = #repro.fdpa<terms = 16, fraction = 9, round = rz_f32, floor = 0>}

// -----

// expected-error @+1 {{(M4) floor must be 0 without fraction, got -133}}
func.func private @M4_floor_without_fraction() attributes {o = #repro.fdpa<terms = 16, round = rz_f32, floor = -133>}

// -----

// expected-error @+1 {{(M4) floor must be -300 to 300, got 301}}
func.func private @M4_floor() attributes {o = #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = 301>}

// -----

// expected-error @+1 {{(M4) late needs an even number of terms, got 15}}
func.func private @M4_late() attributes {o = #repro.fdpa<terms = 15, fraction = 25, round = rz_f32, floor = 0, late = true>}

// -----

// expected-error @+1 {{(M4) chunk must be 0 or a multiple of a block of 32 products, got 48}}
func.func private @M4_chunk() attributes {o = #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = 0, late = true, chunk = 48>}

// -----

// expected-error @+1 {{(M4) start = init needs one chain, but chunk is 64}}
func.func private @M4_start() attributes {o = #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = 0, chunk = 64, start = init>}

// -----

// expected-error @+1 {{'repro.num_state' must be an i64 attribute of a function}}
func.func private @num_state_type() attributes {repro.num_state = 1 : i32}

// -----

// expected-error @+1 {{'repro.num_state' must be an i64 attribute of a function}}
module attributes {repro.num_state = 1 : i64} {}

// -----

// expected-error @+1 {{'repro.num_state' is 2, expected at most the number of arguments (1) and of results (2)}}
func.func private @num_state_arguments(tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {repro.num_state = 2 : i64}

// -----

// expected-error @+1 {{'repro.num_state' is 1, expected at most the number of arguments (1) and of results (0)}}
func.func private @num_state_results(tensor<4xf32>) attributes {repro.num_state = 1 : i64}

// -----

// expected-error @+1 {{'repro.num_state' is -1, expected at most}}
func.func private @num_state_negative() attributes {repro.num_state = -1 : i64}

// -----

// Discardable attributes are verified before the function's own.
// expected-error @+1 {{'func.func' op requires attribute 'function_type'}}
"func.func"() <{sym_name = "num_state_without_type"}> ({}) {repro.num_state = 1 : i64} : () -> ()

// -----

// expected-error @+1 {{'repro.name' of argument 0 must be a string}}
func.func private @name_of_argument(tensor<4xf32> {repro.name = 1 : i64})

// -----

//===----------------------------------------------------------------------===//
// Operand types (V1)
//===----------------------------------------------------------------------===//

func.func @V1_scalar_output(%x: tensor<8xf32>, %o: vector<f32>) {
  // expected-error @+1 {{(V1) operand #1 is of type 'vector<f32>', expected a ranked tensor without encoding or a strided memref, of signless integers of 1 to 64 bits, index, f64, f32, bf16, f16, f8E4M3FN or f8E5M2}}
  repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : vector<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  }
  return
}

// -----

func.func @V1_tuple_input(%x: tensor<8xf32>, %t: tuple<f32>, %o: tensor<f32>) {
  // expected-error @+1 {{(V1) operand #1 is of type 'tuple<f32>', expected a ranked tensor without encoding, a scalar or a strided memref}}
  repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x, %t : tensor<8xf32>, tuple<f32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %f: tuple<f32>, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  }
  return
}

// -----

func.func @V1_complex(%x: tensor<8xcomplex<f32>>, %o: tensor<8xcomplex<f32>>) {
  // expected-error @+1 {{(V1) operand #0 is of type}}
  %0 = repro.scan add dimension = 0 ins(%x : tensor<8xcomplex<f32>>) outs(%o : tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  return
}

// -----

func.func @V1_wide_integer(%x: tensor<8xi65>, %o: tensor<8xi65>) {
  // expected-error @+1 {{(V1) operand #0 is of type}}
  %0 = repro.scan add dimension = 0 ins(%x : tensor<8xi65>) outs(%o : tensor<8xi65>) -> tensor<8xi65>
  return
}

// -----

func.func @V1_signed_integer(%x: tensor<8xsi32>, %o: tensor<8xsi32>) {
  // expected-error @+1 {{(V1) operand #0 is of type}}
  %0 = repro.scan add dimension = 0 ins(%x : tensor<8xsi32>) outs(%o : tensor<8xsi32>) -> tensor<8xsi32>
  return
}

// -----

func.func @V1_unknown_float(%x: tensor<8xf8E5M2FNUZ>, %o: tensor<8xf8E5M2FNUZ>) {
  // expected-error @+1 {{(V1) operand #0 is of type}}
  %0 = repro.scan add dimension = 0 ins(%x : tensor<8xf8E5M2FNUZ>) outs(%o : tensor<8xf8E5M2FNUZ>) -> tensor<8xf8E5M2FNUZ>
  return
}

// -----

func.func @V1_vector(%x: vector<8xf32>, %o: tensor<8xf32>) {
  // expected-error @+1 {{(V1) operand #0 is of type}}
  %0 = repro.scan add dimension = 0 ins(%x : vector<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @V1_unranked_tensor(%x: tensor<*xf32>, %o: tensor<8xf32>) {
  // expected-error @+1 {{(V1) operand #0 is of type}}
  %0 = repro.scan add dimension = 0 ins(%x : tensor<*xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @V1_unranked_memref(%x: memref<*xf32>, %o: memref<*xf32>) {
  // expected-error @+1 {{(V1) operand #0 is of type}}
  repro.scan add dimension = 0 ins(%x : memref<*xf32>) outs(%o : memref<*xf32>)
  return
}

// -----

func.func @V1_memref_of_memrefs(%x: memref<8xmemref<8xf32>>, %o: memref<8xmemref<8xf32>>) {
  // expected-error @+1 {{(V1) operand #0 is of type}}
  repro.scan add dimension = 0 ins(%x : memref<8xmemref<8xf32>>) outs(%o : memref<8xmemref<8xf32>>)
  return
}

// -----

func.func @V1_layout(%x: memref<8xf32, affine_map<(i) -> (i mod 4)>>, %o: memref<8xf32>) {
  // expected-error @+1 {{(V1) operand #0 is of type}}
  repro.scan add dimension = 0 ins(%x : memref<8xf32, affine_map<(i) -> (i mod 4)>>) outs(%o : memref<8xf32>)
  return
}

// -----

func.func @V1_encoding(%x: tensor<8xf32, "sparse">, %o: tensor<8xf32>) {
  // expected-error @+1 {{(V1) operand #0 is of type}}
  %0 = repro.scan add dimension = 0 ins(%x : tensor<8xf32, "sparse">) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Destination style, common to all structured operations
//===----------------------------------------------------------------------===//

func.func @tensors_and_memrefs(%x: tensor<8xf32>, %o: memref<8xf32>) {
  // expected-error @+1 {{expected operands to be all tensors or all memrefs}}
  repro.scan add dimension = 0 ins(%x : tensor<8xf32>) outs(%o : memref<8xf32>)
  return
}

// -----

func.func @result_of_memrefs(%x: memref<8xf32>, %o: memref<8xf32>) {
  // expected-error @+1 {{expected 0 results, one per tensor of 'outs', got 1}}
  %0 = repro.scan add dimension = 0 ins(%x : memref<8xf32>) outs(%o : memref<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @result_missing(%x: tensor<8xf32>, %o: tensor<8xf32>) {
  // expected-error @+1 {{expected 1 results, one per tensor of 'outs', got 0}}
  repro.scan add dimension = 0 ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>)
  return
}

// -----

func.func @result_type(%x: tensor<8xf32>, %o: tensor<8xf32>) {
  // expected-error @+1 {{result #0 has type 'tensor<8xf64>', expected that of its initial operand, 'tensor<8xf32>'}}
  %0 = repro.scan add dimension = 0 ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf64>
  return
}

// -----

func.func @operand_segments_count(%x: tensor<8xf32>, %o: tensor<8xf32>) {
  // expected-error @+1 {{operand count (2) does not match with the total size (3) specified in attribute 'operandSegmentSizes'}}
  %0 = "repro.scan"(%x, %o) <{combine = #repro<combine add>, dimension = 0 : i64, operandSegmentSizes = array<i32: 1, 2>}> : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @operand_segments_negative(%x: tensor<8xf32>, %o: tensor<8xf32>) {
  // expected-error @+1 {{operandSegmentSizes}}
  %0 = "repro.scan"(%x, %o) <{combine = #repro<combine add>, dimension = 0 : i64, operandSegmentSizes = array<i32: -1, 3>}> : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// repro.fold
//===----------------------------------------------------------------------===//

func.func @fold_iterators(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{expected 'parallel' or 'reduction', got 'window'}}
  repro.fold #repro.any_order maps [affine_map<(i) -> (i)>] iterators [window]
}

// -----

func.func @fold_without_outputs(%x: tensor<8xf32>) {
  // expected-error @+1 {{expected at least one output}}
  "repro.fold"(%x) <{indexing_maps = [affine_map<(i) -> (i)>], iterator_types = [#linalg.iterator_type<reduction>],
      operandSegmentSizes = array<i32: 1, 0>, order = #repro.any_order}> ({
  ^bb0(%e: f32):
    repro.yield
  }) : (tensor<8xf32>) -> ()
  return
}

// -----

func.func @fold_number_of_maps(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{expected one indexing map per operand (2), got 1}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_dimensions_of_map(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{indexing map #0 has 2 dimensions and 0 symbols, expected 1 and 0}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i, j) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_symbols_of_map(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{indexing map #0 has 1 dimensions and 1 symbols, expected 1 and 0}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i)[s] -> (i + s)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_results_of_map(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{indexing map #0 has 2 results, expected the operand's rank 1}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i, 0)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_map_of_output(%x: tensor<8xf32>, %o: tensor<4xf32>) {
  // expected-error @+1 {{map of output #0 must be a projected permutation}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> (i floordiv 2)>] iterators [parallel]
      ins(%x : tensor<8xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<4xf32>
  return
}

// -----

// A result that several iterations write would depend on their order.
func.func @fold_output_names_parallel(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{map of output #0 must name every parallel dimension and no reduction dimension, which fails for dimension 0}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [parallel]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_output_names_reduction(%x: tensor<8xf32>, %o: tensor<8xf32>) {
  // expected-error @+1 {{map of output #0 must name every parallel dimension and no reduction dimension, which fails for dimension 0}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<8xf32>
  return
}

// -----

func.func @fold_extent_unknown(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{operand shapes do not determine the iteration space}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i, j) -> (i + j)>, affine_map<(i, j) -> ()>] iterators [reduction, reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @F6_step_read_twice(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(F6) a body that is not op(acc, f(inputs)) folds in #repro.sequential order, got #repro.any_order}}
  %0 = repro.fold #repro.any_order
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    %2 = arith.cmpf ord, %1, %1 : f32
    cf.assert %2, "partial results are no one's business"
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @K4_contraction(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(K4) #repro.exact is for contractions: expected acc = math.fma(x, y, acc) in f32 of two inputs or their extensions, and no other operation}}
  %0 = repro.fold #repro.exact<digits = 2>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.addf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @K4_f64(%x: tensor<8xf64>, %o: tensor<f64>) {
  // expected-error @+1 {{(K4) #repro.exact is for contractions: expected acc = math.fma(x, y, acc) in f32}}
  %0 = repro.fold #repro.exact<digits = 3>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf64>) outs(%o : tensor<f64>) {
  ^bb0(%e: f64, %acc: f64):
    %1 = math.fma %e, %e, %acc : f64
    repro.yield %1 : f64
  } -> tensor<f64>
  return
}

// -----

func.func @K4_prologue(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(K4) #repro.exact is for contractions: expected acc = math.fma(x, y, acc) in f32}}
  %0 = repro.fold #repro.exact<digits = 3>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %n = arith.negf %e : f32
    %1 = math.fma %n, %e, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

// (E1) The check would be lost.
func.func @K4_check(%x: tensor<8xf32>, %n: tensor<8xi64>, %o: tensor<f32>) {
  // expected-error @+1 {{(K4) #repro.exact is for contractions}}
  %0 = repro.fold #repro.exact<digits = 3>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x, %n : tensor<8xf32>, tensor<8xi64>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %c: i64, %acc: f32):
    %five = arith.constant 5 : i64
    %ok = arith.cmpi ult, %c, %five : i64
    cf.assert %ok, "expected less"
    %1 = math.fma %e, %e, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @K4_static(%x: tensor<?xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(K4) #repro.exact needs reduction dimensions of static extent}}
  %0 = repro.fold #repro.exact<digits = 2>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<?xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = math.fma %e, %e, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @K4_terms(%x: tensor<512x513xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(K4) expected at most 262144 reduction elements for #repro.exact}}
  %0 = repro.fold #repro.exact<digits = 2>
      maps [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>] iterators [reduction, reduction]
      ins(%x : tensor<512x513xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = math.fma %e, %e, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @M4_contraction(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(M4) #repro.fdpa is for contractions: expected acc = math.fma(x, y, acc) in f32 of two inputs or their extensions, and no other operation}}
  %0 = repro.fold #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = -133>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.addf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @M4_f64(%x: tensor<8xf64>, %o: tensor<f64>) {
  // expected-error @+1 {{(M4) #repro.fdpa is for contractions: expected acc = math.fma(x, y, acc) in f32 of two inputs or their extensions, and no other operation}}
  %0 = repro.fold #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = -133>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf64>) outs(%o : tensor<f64>) {
  ^bb0(%e: f64, %acc: f64):
    %1 = math.fma %e, %e, %acc : f64
    repro.yield %1 : f64
  } -> tensor<f64>
  return
}

// -----

func.func @M4_f16_start(%x: tensor<8xf32>, %o: tensor<bf16>) {
  // expected-error @+1 {{(M4) start = init with rne_f16 needs results of f16, got 'bf16'}}
  %0 = repro.fold #repro.fdpa<terms = 16, fraction = 25, round = rne_f16, floor = -21, start = init>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<bf16>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = math.fma %e, %e, %acc : f32
    repro.yield %1 : f32
  } -> tensor<bf16>
  return
}

// -----

func.func @F1_run_bounded(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(F1) run is 2, but there are only 1 reduction dimensions}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 2, totals = sequential>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.addf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_extents_disagree(%x: tensor<8xf32>, %y: tensor<7xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{dimension 0 of operand #1 is 7, but the extent of iterator 0 is 8}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x, %y : tensor<8xf32>, tensor<7xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = arith.maximumf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_window_too_far(%x: tensor<8xf32>, %w: tensor<3xf32>, %o: tensor<7xf32>) {
  // expected-error @+1 {{result #0 of indexing map #0 goes from 0 to 8, expected 0 to 7}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(i, k) -> (i + k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction]
      ins(%x, %w : tensor<8xf32>, tensor<3xf32>) outs(%o : tensor<7xf32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<7xf32>
  return
}

// -----

// The first and the last iteration of this map are within bounds, but others are not.
func.func @fold_window_negative(%x: tensor<8xf32>, %w: tensor<3xf32>, %o: tensor<3xf32>) {
  // expected-error @+1 {{result #0 of indexing map #0 goes from -2 to 2, expected 0 to 7}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(i, k) -> (i - k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction]
      ins(%x, %w : tensor<8xf32>, tensor<3xf32>) outs(%o : tensor<3xf32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<3xf32>
  return
}

// -----

// The last iteration of (k mod 4) has the value 0; the largest value is 3.
func.func @fold_mod_too_far(%x: tensor<3xf32>, %w: tensor<9xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{result #0 of indexing map #0 goes from 0 to 3, expected 0 to 2}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(k) -> (k mod 4)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction]
      ins(%x, %w : tensor<3xf32>, tensor<9xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_division_by_zero(%x: tensor<3xf32>, %w: tensor<9xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{cannot tell the bounds of result #0 of indexing map #0}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(k) -> (k floordiv 0)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction]
      ins(%x, %w : tensor<3xf32>, tensor<9xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_index_overflow(%x: tensor<3xf32>, %w: tensor<9xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(A2) result #0 of indexing map #0 exceeds 2^62 on the way}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(k) -> (k * 4611686018427387904)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction]
      ins(%x, %w : tensor<3xf32>, tensor<9xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

// An extent of 0 next to another extent does not make the iteration space empty.
func.func @A1_fold_extents(%x: tensor<0xf32>, %w: tensor<9xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(A1) dimension 0 of operand #1 is 9, but the extent of iterator 0 is 0}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction]
      ins(%x, %w : tensor<0xf32>, tensor<9xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_access_of_empty(%x: tensor<0xf32>, %w: tensor<9xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{result #0 of indexing map #0 goes from 0 to 0, expected 0 to -1}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(k) -> (0)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction]
      ins(%x, %w : tensor<0xf32>, tensor<9xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_block_arguments(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{expected one block argument per operand (2), got 1}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%acc: f32):
    repro.yield %acc : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_no_block_arguments(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{expected one block argument per operand (2), got 0}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
    repro.yield
  } -> tensor<f32>
  return
}

// -----

func.func @fold_no_block(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{failed to verify constraint: region with 1 blocks}}
  %0 = "repro.fold"(%x, %o) <{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
      iterator_types = [#linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 1>, order = #repro.any_order}> ({
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @fold_two_blocks(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{expects region #0 to have 0 or 1 blocks}}
  %0 = "repro.fold"(%x, %o) <{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
      iterator_types = [#linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 1>, order = #repro.any_order}> ({
  ^bb0(%e: f32, %acc: f32):
    cf.br ^bb1
  ^bb1:
    repro.yield %acc : f32
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @fold_empty_block(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{expects a non-empty block}}
  %0 = "repro.fold"(%x, %o) <{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
      iterator_types = [#linalg.iterator_type<reduction>], operandSegmentSizes = array<i32: 1, 1>, order = #repro.any_order}> ({
  ^bb0(%e: f32, %acc: f32):
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @fold_no_terminator(%x: tensor<8xf32>, %o: tensor<f32>) {
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    // expected-error @+1 {{block with no terminator}}
    %1 = arith.maximumf %acc, %e : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_wrong_terminator(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{expected the body to end with 'repro.yield'}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    llvm.unreachable
  } -> tensor<f32>
  return
}

// -----

func.func @fold_yielded_number(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{expected one yielded value per output (1), got 2}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    repro.yield %acc, %acc : f32, f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_argument_type(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{block argument #0 has type 'f64', expected 'f32'}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f64, %acc: f32):
    repro.yield %acc : f32
  } -> tensor<f32>
  return
}

// -----

func.func @F7_accumulator_is_f32(%x: tensor<8xbf16>, %o: tensor<bf16>) {
  // expected-error @+1 {{block argument #1 has type 'bf16', expected 'f32'}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xbf16>) outs(%o : tensor<bf16>) {
  ^bb0(%e: bf16, %acc: bf16):
    %1 = arith.addf %acc, %e : bf16
    repro.yield %1 : bf16
  } -> tensor<bf16>
  return
}

// -----

func.func @F7_not_for_maximum(%x: tensor<8xbf16>, %o: tensor<bf16>) {
  // expected-error @+1 {{block argument #1 has type 'f32', expected 'bf16'}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xbf16>) outs(%o : tensor<bf16>) {
  ^bb0(%e: bf16, %acc: f32):
    %1 = arith.extf %e : bf16 to f32
    %2 = arith.maximumf %acc, %1 : f32
    repro.yield %2 : f32
  } -> tensor<bf16>
  return
}

// -----

func.func @fold_yielded_type(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{yielded value #0 has type 'f64', expected that of its accumulator, 'f32'}}
  %0 = repro.fold #repro.sequential maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.extf %acc : f32 to f64
    repro.yield %1 : f64
  } -> tensor<f32>
  return
}

// -----

func.func @F6_sequential_expected(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(F6) a body that is not op(acc, f(inputs)) folds in #repro.sequential order, got #repro.any_order}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.subf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @F6_accumulator_used_twice(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(F6) a body that is not op(acc, f(inputs)) folds in #repro.sequential order, got #repro.order}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.addf %acc, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @F6_accumulator_as_factor(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(F6) a body that is not op(acc, f(inputs)) folds in #repro.sequential order, got #repro.order}}
  %0 = repro.fold #repro.order<chunk = 8, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = math.fma %acc, %e, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @F5_any_order_expected(%x: tensor<8xi32>, %o: tensor<i32>) {
  // expected-error @+1 {{(F5) the result cannot depend on the order: expected #repro.any_order, got #repro.sequential}}
  %0 = repro.fold #repro.sequential maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xi32>) outs(%o : tensor<i32>) {
  ^bb0(%e: i32, %acc: i32):
    %1 = arith.addi %acc, %e : i32
    repro.yield %1 : i32
  } -> tensor<i32>
  return
}

// -----

func.func @F1_order_expected(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(F1) expected #repro.order for a fold by 'arith.addf', got #repro.any_order}}
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.addf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_kind_of_order(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{attribute 'order' failed to satisfy constraint: #repro.order, #repro.any_order, #repro.sequential, #repro.exact or #repro.fdpa}}
  %0 = repro.fold 1 : i64 maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.addf %acc, %e : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @fold_constant_inits_count(%x: memref<4x8xf32>, %o: memref<4xf32>) {
  // expected-error @+1 {{expected 'repro.init' to have one constant per output (1), got []}}
  repro.fold #repro.any_order maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%x : memref<4x8xf32>) outs(%o : memref<4xf32>) attributes {repro.init = []} {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.maximumf %acc, %e : f32
    repro.yield %s : f32
  }
  return
}

// -----

func.func @fold_constant_inits_kind(%x: memref<4x8xf32>, %o: memref<4xf32>) {
  // expected-error @+1 {{expected 'repro.init' to have one constant per output (1), got 0.000000e+00 : f32}}
  repro.fold #repro.any_order maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%x : memref<4x8xf32>) outs(%o : memref<4xf32>) attributes {repro.init = 0.0 : f32} {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.maximumf %acc, %e : f32
    repro.yield %s : f32
  }
  return
}

// -----

func.func @fold_constant_inits_type(%x: memref<4x8xf32>, %o: memref<4xf32>) {
  // expected-error @+1 {{expected constant #0 of 'repro.init' to be of type 'f32', got 0 : i32}}
  repro.fold #repro.any_order maps [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>] iterators [parallel, reduction] ins(%x : memref<4x8xf32>) outs(%o : memref<4xf32>) attributes {repro.init = [0 : i32]} {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.maximumf %acc, %e : f32
    repro.yield %s : f32
  }
  return
}

// -----

// expected-error @+1 {{expected 'repro.init' only on a repro.fold}}
func.func @fold_constant_inits_place() attributes {repro.init = [0.0 : f32]} {
  return
}

// -----

func.func @index_dimension(%x: tensor<8xi64>, %o: tensor<i64>) {
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xi64>) outs(%o : tensor<i64>) {
  ^bb0(%e: i64, %acc: i64):
    // expected-error @+1 {{dimension is 1, expected less than the fold's 1 dimensions}}
    %1 = repro.index 1 : index
    %2 = arith.index_cast %1 : index to i64
    %3 = arith.addi %acc, %2 : i64
    repro.yield %3 : i64
  } -> tensor<i64>
  return
}

// -----

func.func @index_outside() {
  // expected-error @+1 {{expects parent op 'repro.fold'}}
  %0 = repro.index 0 : index
  return
}

// -----

func.func @yield_outside() {
  // expected-error @+1 {{expects parent op 'repro.fold'}}
  repro.yield
}

// -----

//===----------------------------------------------------------------------===//
// repro.arg_reduce
//===----------------------------------------------------------------------===//

func.func @D2_counts(%x: tensor<8xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{expected 1 inputs and 2 outputs, got 1 and 1}}
  %0 = repro.arg_reduce max dimension = 0 ins(%x : tensor<8xf32>) outs(%v : tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @D2_dimension(%x: tensor<8xf32>, %v: tensor<f32>, %i: tensor<i64>) {
  // expected-error @+1 {{dimension is 1, expected 0 to 0 for an operand of type 'tensor<8xf32>'}}
  %0:2 = repro.arg_reduce max dimension = 1 ins(%x : tensor<8xf32>) outs(%v, %i : tensor<f32>, tensor<i64>) -> tensor<f32>, tensor<i64>
  return
}

// -----

func.func @D2_rank_zero(%x: tensor<f32>, %v: tensor<f32>, %i: tensor<i64>) {
  // expected-error @+1 {{expected an operand with dimensions, got 'tensor<f32>'}}
  %0:2 = repro.arg_reduce max dimension = 0 ins(%x : tensor<f32>) outs(%v, %i : tensor<f32>, tensor<i64>) -> tensor<f32>, tensor<i64>
  return
}

// -----

func.func @D2_empty(%x: tensor<4x0xf32>, %v: tensor<4xf32>, %i: tensor<4xi64>) {
  // expected-error @+1 {{(D2) dimension 1 of the input has no element}}
  %0:2 = repro.arg_reduce max dimension = 1 ins(%x : tensor<4x0xf32>) outs(%v, %i : tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>, tensor<4xi64>
  return
}

// -----

func.func @D2_value(%x: tensor<4x8xf32>, %v: tensor<8xf32>, %i: tensor<4xi64>) {
  // expected-error @+1 {{output #0 is of type 'tensor<8xf32>', expected shape and element type of 'tensor<4xf32>'}}
  %0:2 = repro.arg_reduce max dimension = 1 ins(%x : tensor<4x8xf32>) outs(%v, %i : tensor<8xf32>, tensor<4xi64>) -> tensor<8xf32>, tensor<4xi64>
  return
}

// -----

func.func @D2_index(%x: tensor<4x8xf32>, %v: tensor<4xf32>, %i: tensor<4xi32>) {
  // expected-error @+1 {{output #1 is of type 'tensor<4xi32>', expected shape and element type of 'tensor<4xi64>'}}
  %0:2 = repro.arg_reduce max dimension = 1 ins(%x : tensor<4x8xf32>) outs(%v, %i : tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>, tensor<4xi32>
  return
}

// -----

func.func @D2_kind(%x: tensor<8xf32>, %v: tensor<f32>, %i: tensor<i64>) {
  // expected-error @+2 {{failed to parse Repro_ArgKindAttr}}
  // expected-error @+1 {{expected ::mlir::repro::ArgKind to be one of: max, min}}
  %0:2 = repro.arg_reduce median dimension = 0 ins(%x : tensor<8xf32>) outs(%v, %i : tensor<f32>, tensor<i64>) -> tensor<f32>, tensor<i64>
  return
}

// -----

//===----------------------------------------------------------------------===//
// repro.scatter
//===----------------------------------------------------------------------===//

func.func @D1_counts(%u: tensor<6x8xf32>, %o: tensor<10x8xf32>) {
  // expected-error @+1 {{expected 2 inputs and 1 outputs, got 1 and 1}}
  %0 = repro.scatter add ins(%u : tensor<6x8xf32>) outs(%o : tensor<10x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

func.func @D1_indices_element(%u: tensor<6x8xf32>, %i: tensor<6x1xi1>, %o: tensor<10x8xf32>) {
  // expected-error @+1 {{(D1) expected indices of rank 2 with i32 or i64 elements and a static dimension 1, got 'tensor<6x1xi1>'}}
  %0 = repro.scatter add ins(%u, %i : tensor<6x8xf32>, tensor<6x1xi1>) outs(%o : tensor<10x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

func.func @D1_indices_rank(%u: tensor<6x8xf32>, %i: tensor<6xi64>, %o: tensor<10x8xf32>) {
  // expected-error @+1 {{(D1) expected indices of rank 2 with i32 or i64 elements and a static dimension 1, got 'tensor<6xi64>'}}
  %0 = repro.scatter add ins(%u, %i : tensor<6x8xf32>, tensor<6xi64>) outs(%o : tensor<10x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

func.func @D1_indices_dynamic(%u: tensor<6x8xf32>, %i: tensor<6x?xi64>, %o: tensor<10x8xf32>) {
  // expected-error @+1 {{(D1) expected indices of rank 2 with i32 or i64 elements and a static dimension 1, got 'tensor<6x?xi64>'}}
  %0 = repro.scatter add ins(%u, %i : tensor<6x8xf32>, tensor<6x?xi64>) outs(%o : tensor<10x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

func.func @D1_indices_depth(%u: tensor<6xf32>, %i: tensor<6x3xi64>, %o: tensor<10x8xf32>) {
  // expected-error @+1 {{(D1) indices name 3 dimensions, but the original has rank 2}}
  %0 = repro.scatter add ins(%u, %i : tensor<6xf32>, tensor<6x3xi64>) outs(%o : tensor<10x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

func.func @D1_updates_shape(%u: tensor<7x8xf32>, %i: tensor<6x1xi64>, %o: tensor<10x8xf32>) {
  // expected-error @+1 {{updates is of type 'tensor<7x8xf32>', expected shape and element type of 'tensor<6x8xf32>'}}
  %0 = repro.scatter add ins(%u, %i : tensor<7x8xf32>, tensor<6x1xi64>) outs(%o : tensor<10x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

func.func @D1_updates_element(%u: tensor<6x8xbf16>, %i: tensor<6x1xi64>, %o: tensor<10x8xf32>) {
  // expected-error @+1 {{updates is of type 'tensor<6x8xbf16>', expected shape and element type of 'tensor<6x8xf32>'}}
  %0 = repro.scatter add ins(%u, %i : tensor<6x8xbf16>, tensor<6x1xi64>) outs(%o : tensor<10x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

func.func @D1_combine(%u: tensor<6x8xf32>, %i: tensor<6x1xi64>, %o: tensor<10x8xf32>) {
  // expected-error @+2 {{failed to parse Repro_CombineAttr}}
  // expected-error @+1 {{expected ::mlir::repro::Combine to be one of: add, mul, maximum, minimum, replace}}
  %0 = repro.scatter sub ins(%u, %i : tensor<6x8xf32>, tensor<6x1xi64>) outs(%o : tensor<10x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// repro.scan
//===----------------------------------------------------------------------===//

func.func @D3_counts(%x: tensor<8xf32>, %o: tensor<8xf32>) {
  // expected-error @+1 {{expected 1 inputs and 1 outputs, got 2 and 1}}
  %0 = repro.scan add dimension = 0 ins(%x, %x : tensor<8xf32>, tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @D3_replace(%x: tensor<8xf32>, %o: tensor<8xf32>) {
  // expected-error @+1 {{(D3) 'replace' has no prefix reduction}}
  %0 = repro.scan replace dimension = 0 ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @D3_dimension(%x: tensor<8xf32>, %o: tensor<8xf32>) {
  // expected-error @+1 {{dimension is -1, expected 0 to 0}}
  %0 = repro.scan add dimension = -1 ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @D3_output(%x: tensor<8xf32>, %o: tensor<9xf32>) {
  // expected-error @+1 {{output #0 is of type 'tensor<9xf32>', expected shape and element type of 'tensor<8xf32>'}}
  %0 = repro.scan add dimension = 0 ins(%x : tensor<8xf32>) outs(%o : tensor<9xf32>) -> tensor<9xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// repro.sort
//===----------------------------------------------------------------------===//

func.func @D2_sort_key(%o: tensor<8xf32>) {
  // expected-error @+1 {{(D2) expected at least one input, the key}}
  %0 = "repro.sort"(%o) <{dimension = 0 : i64, direction = #repro<direction ascending>, operandSegmentSizes = array<i32: 0, 1>}> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @D2_sort_counts(%k: tensor<8xf32>) {
  // expected-error @+1 {{expected 2 inputs and 2 outputs, got 2 and 1}}
  %0 = repro.sort ascending dimension = 0 ins(%k, %k : tensor<8xf32>, tensor<8xf32>) outs(%k : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @D2_sort_dimension(%k: tensor<8xf32>) {
  // expected-error @+1 {{dimension is 3, expected 0 to 0}}
  %0 = repro.sort ascending dimension = 3 ins(%k : tensor<8xf32>) outs(%k : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @D2_sort_input(%k: tensor<8xf32>, %v: tensor<7xi64>) {
  // expected-error @+1 {{input #1 is of type 'tensor<7xi64>', expected shape and element type of 'tensor<8xi64>'}}
  %0:2 = repro.sort ascending dimension = 0 ins(%k, %v : tensor<8xf32>, tensor<7xi64>) outs(%k, %v : tensor<8xf32>, tensor<7xi64>) -> tensor<8xf32>, tensor<7xi64>
  return
}

// -----

func.func @D2_sort_output(%k: tensor<8xf32>, %v: tensor<8xi64>) {
  // expected-error @+1 {{output #1 is of type 'tensor<8xf32>', expected shape and element type of 'tensor<8xi64>'}}
  %0:2 = repro.sort ascending dimension = 0 ins(%k, %v : tensor<8xf32>, tensor<8xi64>) outs(%k, %k : tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>, tensor<8xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// repro.random
//===----------------------------------------------------------------------===//

func.func @R1_counts(%seed: i64, %o: tensor<8xf32>) {
  // expected-error @+1 {{expected 2 inputs and 1 outputs, got 1 and 1}}
  %0 = repro.random uniform site = 0 ins(%seed : i64) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @R1_seed(%seed: i32, %step: i64, %o: tensor<8xf32>) {
  // expected-error @+1 {{(R1) input #0 is of type 'i32', expected i64}}
  %0 = repro.random uniform site = 0 ins(%seed, %step : i32, i64) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @R1_site(%seed: i64, %step: i64, %o: tensor<8xf32>) {
  // expected-error @+1 {{(R1) site is 4294967296, expected 32 bits}}
  %0 = repro.random uniform site = 4294967296 ins(%seed, %step : i64, i64) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @R1_site_negative(%seed: i64, %step: i64, %o: tensor<8xf32>) {
  // expected-error @+1 {{attribute 'site' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 0}}
  %0 = repro.random uniform site = -1 ins(%seed, %step : i64, i64) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @R2_uniform(%seed: i64, %step: i64, %o: tensor<8xf64>) {
  // expected-error @+1 {{(R2) 'uniform' gives 'f32', but the output has element type 'f64'}}
  %0 = repro.random uniform site = 0 ins(%seed, %step : i64, i64) outs(%o : tensor<8xf64>) -> tensor<8xf64>
  return
}

// -----

func.func @R2_bits(%seed: i64, %step: i64, %o: tensor<8xi64>) {
  // expected-error @+1 {{(R2) 'bits' gives 'i32', but the output has element type 'i64'}}
  %0 = repro.random bits site = 0 ins(%seed, %step : i64, i64) outs(%o : tensor<8xi64>) -> tensor<8xi64>
  return
}

// -----

func.func @R2_bernoulli_element(%seed: i64, %step: i64, %o: tensor<8xf32>) {
  // expected-error @+1 {{(R2) 'bernoulli' gives 'i1', but the output has element type 'f32'}}
  %0 = repro.random bernoulli probability = 0.5 site = 0 ins(%seed, %step : i64, i64) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @R2_bernoulli_probability(%seed: i64, %step: i64, %o: tensor<8xi1>) {
  // expected-error @+1 {{(R2) expected 'probability' only with 'bernoulli'}}
  %0 = repro.random bernoulli site = 0 ins(%seed, %step : i64, i64) outs(%o : tensor<8xi1>) -> tensor<8xi1>
  return
}

// -----

func.func @R2_uniform_probability(%seed: i64, %step: i64, %o: tensor<8xf32>) {
  // expected-error @+1 {{(R2) expected 'probability' only with 'bernoulli'}}
  %0 = repro.random uniform probability = 0.5 site = 0 ins(%seed, %step : i64, i64) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @R2_probability(%seed: i64, %step: i64, %o: tensor<8xi1>) {
  // expected-error @+1 {{(R2) expected a probability of 0 to 1, got 1.500000e+00 : f32}}
  %0 = repro.random bernoulli probability = 1.5 site = 0 ins(%seed, %step : i64, i64) outs(%o : tensor<8xi1>) -> tensor<8xi1>
  return
}

// -----

func.func @R2_probability_NaN(%seed: i64, %step: i64, %o: tensor<8xi1>) {
  // expected-error @+1 {{(R2) expected a probability of 0 to 1, got 0x7FC00000 : f32}}
  %0 = repro.random bernoulli probability = 0x7FC00000 site = 0 ins(%seed, %step : i64, i64) outs(%o : tensor<8xi1>) -> tensor<8xi1>
  return
}

// -----

func.func @R2_normal_range(%seed: i64, %step: i64, %o: tensor<8xf32>) {
  // expected-error @+1 {{(R2) expected 'range' only with 'randint'}}
  %0 = repro.random normal range = 5 site = 0 ins(%seed, %step : i64, i64) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @R2_range(%seed: i64, %step: i64, %o: tensor<8xi64>) {
  // expected-error @+1 {{(R2) expected a range of 1 to 2^32 values, got 4294967297}}
  %0 = repro.random randint range = 4294967297 site = 0 ins(%seed, %step : i64, i64) outs(%o : tensor<8xi64>) -> tensor<8xi64>
  return
}

// -----

func.func @R2_range_negative(%seed: i64, %step: i64, %o: tensor<8xi64>) {
  // expected-error @+1 {{(R2) expected a range of 1 to 2^32 values, got -1}}
  %0 = repro.random randint range = -1 site = 0 ins(%seed, %step : i64, i64) outs(%o : tensor<8xi64>) -> tensor<8xi64>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Elementary functions
//===----------------------------------------------------------------------===//

func.func @S5_f64(%x: f64) {
  // expected-error @+1 {{operand #0 must be f32, bf16, f16, f8E4M3FN or f8E5M2, or a vector of them, but got 'f64'}}
  %0 = repro.pow %x, %x : f64
  return
}

// -----

func.func @S5_tensor(%x: tensor<4xf32>) {
  // expected-error @+1 {{operand #0 must be f64, f32, bf16, f16, f8E4M3FN or f8E5M2, or a vector of them}}
  %0 = repro.exp %x : tensor<4xf32>
  return
}

// -----

func.func @S5_types_differ(%x: f32, %y: bf16) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "repro.pow"(%x, %y) : (f32, bf16) -> f32
  return
}

// -----

func.func @S5_powi_one_exponent(%x: vector<4xf32>, %n: i32) {
  // expected-error @+1 {{(S5) expected one exponent for each base, got 'vector<4xf32>' and 'i32'}}
  %0 = repro.powi %x, %n : vector<4xf32>, i32
  return
}

// -----

func.func @S5_powi_shapes(%x: vector<4xf32>, %n: vector<8xi32>) {
  // expected-error @+1 {{all non-scalar operands/results must have the same shape and base type}}
  %0 = repro.powi %x, %n : vector<4xf32>, vector<8xi32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Formats of blocks (Q1) to (Q3)
//===----------------------------------------------------------------------===//

// expected-error @+1 {{(Q3) expected random bits only for a stochastic rounding, got 8}}
func.func private @Q3_bits_of_sr_alone() attributes {a = #repro.rounding<direction = rne, bits = 8>}

// -----

// expected-error @+1 {{(Q3) expected random bits only for a stochastic rounding, got 0}}
func.func private @Q3_layout_of_sr_alone() attributes {a = #repro.rounding<direction = rz, layout = ptx>}

// -----

// expected-error @+1 {{(Q3) expected 1 to 32 random bits, got 0}}
func.func private @Q3_bits_least() attributes {a = #repro.rounding<direction = sr>}

// -----

// expected-error @+1 {{(Q3) expected 1 to 32 random bits, got 33}}
func.func private @Q3_bits_most() attributes {a = #repro.rounding<direction = sr, bits = 33>}

// -----

// expected-error @+1 {{(Q3) expected 16 random bits of `ptx`, got 8}}
func.func private @Q3_ptx_bits() attributes {a = #repro.rounding<direction = sr, bits = 8, layout = ptx>}

// -----

// expected-error @+1 {{(Q2) expected a byte for NaN, got -1}}
func.func private @Q2_nan_negative() attributes {a = #repro.power_scale<rule = floor, nan = -1>}

// -----

// expected-error @+1 {{(Q2) expected a byte for NaN, got 256}}
func.func private @Q2_nan_byte() attributes {a = #repro.power_scale<rule = floor, nan = 256>}

// -----

// expected-error @+1 {{(Q2) expected a least exponent from -127 to 127, got -128}}
func.func private @Q2_least_exponent() attributes {a = #repro.power_scale<rule = floor, least = -128>}

// -----

// expected-error @+1 {{(Q2) expected a least exponent from -127 to 127, got 128}}
func.func private @Q2_most_exponent() attributes {a = #repro.power_scale<rule = floor, least = 128>}

// -----

// expected-error @+1 {{(Q2) expected a largest scale of 448 or 256, got 447}}
func.func private @Q2_largest() attributes {a = #repro.two_level_scale<largest = 447>}

// -----

// expected-error @+1 {{(Q2) expected 1 or 2 levels, got 3}}
func.func private @Q2_levels() attributes {a = #repro.quotient_scale<levels = 3>}

// -----

// expected-error @+1 {{(Q2) expected a least amax of f64 above 0}}
func.func private @Q2_least_zero() attributes {a = #repro.f32_scale<encoding = product, least = 0.0>}

// -----

// expected-error @+1 {{(Q2) expected a least amax of f64 above 0}}
func.func private @Q2_least_negative() attributes {a = #repro.f32_scale<encoding = product, least = -1.0>}

// -----

// expected-error @+1 {{(Q2) expected a least amax of f64 above 0}}
func.func private @Q2_least_nan() attributes {a = #repro.f32_scale<encoding = product, least = 0x7FF8000000000000 : f64>}

// -----

// expected-error @+1 {{(Q2) expected a least amax of f64 above 0}}
func.func private @Q2_least_f32() attributes {a = #repro.f32_scale<encoding = product, least = 1.0 : f32>}

// -----

// expected-error @+1 {{(Q2) expected a least amax that is normal in f32}}
func.func private @Q2_least_subnormal() attributes {a = #repro.f32_scale<encoding = product, least = 1.0E-38>}

// -----

// expected-error @+1 {{(Q2) expected a least amax that is normal in f32}}
func.func private @Q2_least_too_large() attributes {a = #repro.f32_scale<encoding = product, least = 1.8E38>}

// -----

// expected-error @+1 {{(Q2) expected a product for an inverse scale, and no product by a power of two}}
func.func private @Q2_inverse() attributes {a = #repro.f32_scale<encoding = quotient, least = 1.0, inverse = true>}

// -----

// expected-error @+1 {{(Q2) expected a product for an inverse scale, and no product by a power of two}}
func.func private @Q2_power_of_product() attributes {a = #repro.f32_scale<encoding = product, least = 1.0, power = true>}

// -----

// expected-error @+1 {{(Q1) expected elements of f8E4M3FN, f8E5M2, f6E3M2FN, f6E2M3FN, f4E2M1FN or i8, got 'f8E8M0FNU'}}
func.func private @Q1_element() attributes {a = #repro.block_format<element = f8E8M0FNU, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>}

// -----

// expected-error @+1 {{(Q1) expected i8 for a format that is not symmetric, got 'f4E2M1FN'}}
func.func private @Q1_symmetric() attributes {a = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>, symmetric = false>}

// -----

// expected-error @+1 {{(Q2) expected blocks of up to 2^31 rows and columns, 0 for all, got -1 and 32}}
func.func private @Q2_rows_negative() attributes {a = #repro.block_format<element = f4E2M1FN, rows = -1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>}

// -----

// expected-error @+1 {{(Q2) expected blocks of up to 2^31 rows and columns, 0 for all, got 1 and 2147483649}}
func.func private @Q2_columns_too_many() attributes {a = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 2147483649, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>}

// -----

// expected-error @+1 {{(Q2) expected a rule of scales, got 1 : i64}}
func.func private @Q2_scale() attributes {a = #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = 1 : i64, rounding = #repro.rounding<direction = rne>>}

// -----

// expected-error @+1 {{(Q2) expected a block of all rows and columns under a given scale, got 1 and 0}}
func.func private @Q2_block_of_given_scale() attributes {a = #repro.block_format<element = f8E4M3FN, rows = 1, columns = 0, scale = #repro.given_scale, rounding = #repro.rounding<direction = rne>>}

// -----

// expected-error @+1 {{(Q2) expected elements of f4E2M1FN under scales of f8E4M3FN, got 'f8E5M2'}}
func.func private @Q2_elements_of_nvfp4() attributes {a = #repro.block_format<element = f8E5M2, rows = 1, columns = 32, scale = #repro.two_level_scale<largest = 448>, rounding = #repro.rounding<direction = rne>>}

// -----

// expected-error @+1 {{(Q2) expected elements of f4E2M1FN under scales of f8E4M3FN, got 'i8'}}
func.func private @Q2_elements_of_quotients() attributes {a = #repro.block_format<element = i8, rows = 1, columns = 32, scale = #repro.quotient_scale<levels = 1>, rounding = #repro.rounding<direction = rne>>}

// -----

// expected-error @+1 {{(Q3) expected floats for `ptx`, got 'i8'}}
func.func private @Q3_ptx_of_integers() attributes {a = #repro.block_format<element = i8, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = sr, bits = 16, layout = ptx>>}

// -----

func.func @Q3_site_missing(%x: tensor<8x96xf32>) {
  // expected-error @+1 {{(Q3) expected a site, seed and step if and only if the rounding is stochastic}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = sr, bits = 8>>
      %x
      : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>
  return
}

// -----

func.func @Q3_site_of_rne(%x: tensor<8x96xf32>, %n: i64) {
  // expected-error @+1 {{(Q3) expected a site, seed and step if and only if the rounding is stochastic}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>
      %x site = 1 (%n, %n : i64, i64)
      : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>
  return
}

// -----

func.func @R1_site(%x: tensor<8x96xf32>, %n: i64) {
  // expected-error @+1 {{(R1) site is 4294967296, expected 32 bits}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = sr, bits = 8>>
      %x site = 4294967296 (%n, %n : i64, i64)
      : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>
  return
}

// -----

func.func @Q2_rank(%x: tensor<96xf32>) {
  // expected-error @+1 {{(Q2) expected two dimensions or more, got 'tensor<96xf32>'}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>
      %x
      : tensor<96xf32> -> tensor<96xf4E2M1FN>, tensor<3xf8E8M0FNU>
  return
}

// -----

func.func @Q1_codes_element(%x: tensor<8x96xf32>) {
  // expected-error @+1 {{(Q1) expected codes of 'tensor<8x96xf4E2M1FN>', got 'tensor<8x96xf6E2M3FN>'}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>
      %x
      : tensor<8x96xf32> -> tensor<8x96xf6E2M3FN>, tensor<8x3xf8E8M0FNU>
  return
}

// -----

func.func @Q1_codes_shape(%x: tensor<8x96xf32>) {
  // expected-error @+1 {{(Q1) expected codes of 'tensor<8x96xf4E2M1FN>', got 'tensor<8x95xf4E2M1FN>'}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>
      %x
      : tensor<8x96xf32> -> tensor<8x95xf4E2M1FN>, tensor<8x3xf8E8M0FNU>
  return
}

// -----

func.func @Q2_scales_element(%x: tensor<8x96xf32>) {
  // expected-error @+1 {{(Q2) expected scales of 'tensor<8x3xf8E8M0FNU>', got 'tensor<8x3xf32>'}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>
      %x
      : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x3xf32>
  return
}

// -----

func.func @Q2_scales_shape(%x: tensor<8x96xf32>) {
  // expected-error @+1 {{(Q2) expected scales of 'tensor<8x3xf8E8M0FNU>', got 'tensor<8x4xf8E8M0FNU>'}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>
      %x
      : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x4xf8E8M0FNU>
  return
}

// -----

func.func @Q2_tensor_not_wanted(%x: tensor<8x96xf32>, %t: tensor<f32>) {
  // expected-error @+1 {{(Q2) expected no value of the whole tensor for this scale}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>
      %x tensor(%t : tensor<f32>)
      : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>
  return
}

// -----

func.func @Q2_tensor_missing(%x: tensor<8x96xf32>) {
  // expected-error @+1 {{(Q2) expected a value of the whole tensor for this scale}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 16, scale = #repro.two_level_scale<largest = 448>, rounding = #repro.rounding<direction = rne>>
      %x
      : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x6xf8E4M3FN>
  return
}

// -----

func.func @Q2_scale_of_rows(%x: tensor<8x96xf32>, %t: tensor<8xf32>) {
  // expected-error @+1 {{(Q2) expected one scale of the whole tensor, got 'tensor<8xf32>'}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 16, scale = #repro.quotient_scale<levels = 2>, rounding = #repro.rounding<direction = rne>>
      %x tensor(%t : tensor<8xf32>)
      : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x6xf8E4M3FN>
  return
}

// -----

func.func @Q2_amax_of_columns(%x: tensor<8x96xf32>, %t: tensor<96xf32>) {
  // expected-error @+1 {{(Q2) expected an amax of the whole tensor, or of each row where blocks have one, got 'tensor<96xf32>'}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 16, scale = #repro.two_level_scale<largest = 448>, rounding = #repro.rounding<direction = rne>>
      %x tensor(%t : tensor<96xf32>)
      : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<8x6xf8E4M3FN>
  return
}

// -----

func.func @Q2_amax_of_rows_of_squares(%x: tensor<8x96xf32>, %t: tensor<8xf32>) {
  // expected-error @+1 {{(Q2) expected an amax of the whole tensor, or of each row where blocks have one, got 'tensor<8xf32>'}}
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 2, columns = 16, scale = #repro.two_level_scale<largest = 448>, rounding = #repro.rounding<direction = rne>>
      %x tensor(%t : tensor<8xf32>)
      : tensor<8x96xf32> -> tensor<8x96xf4E2M1FN>, tensor<4x6xf8E4M3FN>
  return
}

// -----

func.func @Q2_given_scale_missing(%x: tensor<8x96xf32>) {
  // expected-error @+1 {{(Q2) expected a value of the whole tensor for this scale}}
  %0:2 = repro.quantize #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale, rounding = #repro.rounding<direction = rne>>
      %x : tensor<8x96xf32> -> tensor<8x96xf8E4M3FN>, tensor<1x1xf32>
  return
}

// -----

func.func @Q2_given_scale_of_rows(%x: tensor<8x96xf32>, %t: tensor<8xf32>) {
  // expected-error @+1 {{(Q2) expected one scale of the whole tensor, got 'tensor<8xf32>'}}
  %0:2 = repro.quantize #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale, rounding = #repro.rounding<direction = rne>>
      %x tensor(%t : tensor<8xf32>) : tensor<8x96xf32> -> tensor<8x96xf8E4M3FN>, tensor<1x1xf32>
  return
}

// -----

func.func @Q2_dequantize_given_scale(%c: tensor<8x96xf8E4M3FN>, %s: tensor<1x1xf32>, %t: tensor<f32>) {
  // expected-error @+1 {{(Q2) expected no value of the whole tensor for this scale}}
  %0 = repro.dequantize #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0, scale = #repro.given_scale, rounding = #repro.rounding<direction = rne>>
      %c, %s tensor(%t : tensor<f32>) : tensor<8x96xf8E4M3FN>, tensor<1x1xf32> -> tensor<8x96xf32>
  return
}

// -----

func.func @Q7_pack_codes(%c: tensor<8x95xf4E2M1FN>) {
  // expected-error @+1 {{(Q7) expected two codes in a byte, 'tensor<8x48xi8>' of 'tensor<8x95xf4E2M1FN>', got 'tensor<8x47xi8>'}}
  %0 = repro.pack_codes %c : tensor<8x95xf4E2M1FN> -> tensor<8x47xi8>
  return
}

// -----

func.func @Q7_pack_codes_scalar(%c: tensor<f4E2M1FN>) {
  // expected-error @+1 {{(Q7) expected codes in rows, got 'tensor<f4E2M1FN>'}}
  %0 = repro.pack_codes %c : tensor<f4E2M1FN> -> tensor<i8>
  return
}

// -----

func.func @Q7_pack_codes_element(%c: tensor<8x96xf6E2M3FN>) {
  // expected-error @+1 {{'repro.pack_codes' op operand #0 must be statically shaped tensor of f4E2M1FN type values}}
  %0 = repro.pack_codes %c : tensor<8x96xf6E2M3FN> -> tensor<8x48xi8>
  return
}

// -----

func.func @Q7_unpack_codes(%b: tensor<8x48xi8>) {
  // expected-error @+1 {{(Q7) expected two codes in a byte, 'tensor<8x49xi8>' of 'tensor<8x97xf4E2M1FN>', got 'tensor<8x48xi8>'}}
  %0 = repro.unpack_codes %b : tensor<8x48xi8> -> tensor<8x97xf4E2M1FN>
  return
}

// -----

func.func @Q1_dequantize_codes(%c: tensor<8x96xi8>, %s: tensor<8x3xf8E8M0FNU>) {
  // expected-error @+1 {{(Q1) expected codes of 'tensor<8x96xf4E2M1FN>', got 'tensor<8x96xi8>'}}
  %0 = repro.dequantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>
      %c, %s
      : tensor<8x96xi8>, tensor<8x3xf8E8M0FNU> -> tensor<8x96xf32>
  return
}

// -----

func.func @Q2_dequantize_tensor(%c: tensor<8x96xf4E2M1FN>, %s: tensor<8x6xf8E4M3FN>) {
  // expected-error @+1 {{(Q2) expected a value of the whole tensor for this scale}}
  %0 = repro.dequantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 16, scale = #repro.two_level_scale<largest = 448>, rounding = #repro.rounding<direction = rne>>
      %c, %s
      : tensor<8x96xf4E2M1FN>, tensor<8x6xf8E4M3FN> -> tensor<8x96xf32>
  return
}

// -----

func.func @Q4_block(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %y: tensor<40x96xf4E2M1FN>, %t: tensor<40x3xf8E8M0FNU>, %i: tensor<8x40xf32>) {
  // expected-error @+1 {{(Q4) expected blocks of 1 to 8192, got 0}}
  %0 = repro.block_contraction fused block = 0 rows = [1, 1]
      ins(%x, %s, %y, %t : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<40x96xf4E2M1FN>, tensor<40x3xf8E8M0FNU>) outs(%i : tensor<8x40xf32>) -> tensor<8x40xf32>
  return
}

// -----

func.func @Q4_rows(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %y: tensor<40x96xf4E2M1FN>, %t: tensor<40x3xf8E8M0FNU>, %i: tensor<8x40xf32>) {
  // expected-error @+1 {{(Q4) expected two numbers of rows from 1 to 1099511627776}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 0]
      ins(%x, %s, %y, %t : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<40x96xf4E2M1FN>, tensor<40x3xf8E8M0FNU>) outs(%i : tensor<8x40xf32>) -> tensor<8x40xf32>
  return
}

// -----

func.func @Q4_most_rows(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %y: tensor<40x96xf4E2M1FN>, %t: tensor<40x3xf8E8M0FNU>, %i: tensor<8x40xf32>) {
  // expected-error @+1 {{(Q4) expected two numbers of rows from 1 to 1099511627776}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1099511627777]
      ins(%x, %s, %y, %t : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<40x96xf4E2M1FN>, tensor<40x3xf8E8M0FNU>) outs(%i : tensor<8x40xf32>) -> tensor<8x40xf32>
  return
}

// -----

func.func @Q4_rank(%x: tensor<96xf4E2M1FN>, %s: tensor<3xf8E8M0FNU>, %i: tensor<f32>) {
  // expected-error @+1 {{(Q4) expected two dimensions or more}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1]
      ins(%x, %s, %x, %s : tensor<96xf4E2M1FN>, tensor<3xf8E8M0FNU>, tensor<96xf4E2M1FN>, tensor<3xf8E8M0FNU>) outs(%i : tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @Q4_scales(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %y: tensor<40x96xf4E2M1FN>, %t: tensor<40x3xf8E8M0FNU>, %i: tensor<8x40xf32>) {
  // expected-error @+1 {{scales of x is of type 'tensor<8x3xf8E8M0FNU>', expected shape and element type of 'tensor<8x6xf8E8M0FNU>'}}
  %0 = repro.block_contraction fused block = 16 rows = [1, 1]
      ins(%x, %s, %y, %t : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<40x96xf4E2M1FN>, tensor<40x3xf8E8M0FNU>) outs(%i : tensor<8x40xf32>) -> tensor<8x40xf32>
  return
}

// -----

func.func @Q4_integers(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %y: tensor<40x96xf4E2M1FN>, %t: tensor<40x3xf8E8M0FNU>, %i: tensor<8x40xf32>) {
  // expected-error @+1 {{(Q4) expected codes of i8 or i16 with fraction bits, got 'f4E2M1FN'}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 12
      ins(%x, %s, %y, %t : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<40x96xf4E2M1FN>, tensor<40x3xf8E8M0FNU>) outs(%i : tensor<8x40xf32>) -> tensor<8x40xf32>
  return
}

// -----

func.func @Q4_fraction_bits(%x: tensor<8x96xi8>, %s: tensor<8x3xf32>, %y: tensor<40x96xi8>, %t: tensor<40x3xf32>, %i: tensor<8x40xf32>) {
  // expected-error @+1 {{(Q4) expected 0 to 64 fraction bits, got 65}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 65
      ins(%x, %s, %y, %t : tensor<8x96xi8>, tensor<8x3xf32>, tensor<40x96xi8>, tensor<40x3xf32>) outs(%i : tensor<8x40xf32>) -> tensor<8x40xf32>
  return
}

// -----

func.func @Q4_magnitudes_count(%x: tensor<8x96xi8>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(Q4) expected two magnitudes of integers, each 1 to 32768}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 4 magnitudes = [12]
      ins(%x, %s, %x, %s : tensor<8x96xi8>, tensor<8x3xf32>, tensor<8x96xi8>, tensor<8x3xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @Q4_magnitudes_zero(%x: tensor<8x96xi8>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(Q4) expected two magnitudes of integers, each 1 to 32768}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 4 magnitudes = [12, 0]
      ins(%x, %s, %x, %s : tensor<8x96xi8>, tensor<8x3xf32>, tensor<8x96xi8>, tensor<8x3xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @Q4_magnitudes_large(%x: tensor<8x96xi8>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(Q4) expected two magnitudes of integers, each 1 to 32768}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 4 magnitudes = [12, 32769]
      ins(%x, %s, %x, %s : tensor<8x96xi8>, tensor<8x3xf32>, tensor<8x96xi8>, tensor<8x3xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @Q4_magnitudes_of_sums(%x: tensor<8x96xi16>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(Q4) expected magnitudes of which an i32 holds the sum of a block's products}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 4 magnitudes = [8192, 8192]
      ins(%x, %s, %x, %s : tensor<8x96xi16>, tensor<8x3xf32>, tensor<8x96xi16>, tensor<8x3xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @Q4_magnitudes_no_integers(%x: tensor<8x96xi8>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(Q4) expected two magnitudes of integers, each 1 to 32768}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] magnitudes = [12, 12]
      ins(%x, %s, %x, %s : tensor<8x96xi8>, tensor<8x3xf32>, tensor<8x96xi8>, tensor<8x3xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @Q4_codes(%x: tensor<8x96xf8E5M2>, %s: tensor<8x3xf32>, %y: tensor<40x96xf8E5M2>, %t: tensor<40x3xf32>, %i: tensor<8x40xf32>) {
  // expected-error @+1 {{(Q4) expected codes of f8E4M3FN, f6 or f4, or integers with fraction bits, got 'f8E5M2'}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1]
      ins(%x, %s, %y, %t : tensor<8x96xf8E5M2>, tensor<8x3xf32>, tensor<40x96xf8E5M2>, tensor<40x3xf32>) outs(%i : tensor<8x40xf32>) -> tensor<8x40xf32>
  return
}

// -----

func.func @Q4_scale_type(%x: tensor<8x96xi8>, %s: tensor<8x3xf16>, %y: tensor<40x96xi8>, %t: tensor<40x3xf16>, %i: tensor<8x40xf32>) {
  // expected-error @+1 {{(Q4) expected scales of f8E8M0FNU, f8E4M3FN or f32, got 'f16'}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 0
      ins(%x, %s, %y, %t : tensor<8x96xi8>, tensor<8x3xf16>, tensor<40x96xi8>, tensor<40x3xf16>) outs(%i : tensor<8x40xf32>) -> tensor<8x40xf32>
  return
}

// -----

func.func @Q4_unranked(%x: tensor<*xi8>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(V1) operand #0 is of type 'tensor<*xi8>', expected a ranked tensor without encoding}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 0
      ins(%x, %s, %x, %s : tensor<*xi8>, tensor<8x3xf32>, tensor<*xi8>, tensor<8x3xf32>)
      outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @Q4_vector(%x: vector<8x96xi8>, %s: tensor<8x3xf32>, %y: tensor<8x96xi8>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(V1) operand #0 is of type 'vector<8x96xi8>', expected a ranked tensor without encoding}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 0
      ins(%x, %s, %y, %s : vector<8x96xi8>, tensor<8x3xf32>, tensor<8x96xi8>, tensor<8x3xf32>)
      outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @Q4_scalar(%x: i8, %s: tensor<8x3xf32>, %y: tensor<8x96xi8>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{operand #0 must be variadic of shaped of any type values, but got 'i8'}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 0
      ins(%x, %s, %y, %s : i8, tensor<8x3xf32>, tensor<8x96xi8>, tensor<8x3xf32>)
      outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

// expected-error @+1 {{(M2) group must divide the 32 terms of a block, got 5}}
func.func private @M2_group() attributes {o = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = 0, group = 5>}

// -----

func.func @M4_group(%x: tensor<8xf32>, %o: tensor<f32>) {
  // expected-error @+1 {{(M4) expected no groups of products without scales of blocks, got group = 8}}
  %0 = repro.fold #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = -133, group = 8>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%o : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = math.fma %e, %e, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return
}

// -----

func.func @M5_none(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected an accumulator of scaled products}}
  %0 = repro.block_contraction scaled block = 32 rows = [1, 1]
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_elements_alone(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected no 'elements' without accumulator}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] elements = [f4E2M1FN, f4E2M1FN]
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_integers(%x: tensor<8x96xi8>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected codes of f8E4M3FN, f6 or f4 in an accumulator, got integers}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] fraction_bits = 12 accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133>
      ins(%x, %s, %x, %s : tensor<8x96xi8>, tensor<8x3xf32>, tensor<8x96xi8>, tensor<8x3xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_chunk(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected an accumulator without chunk and start, got #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133, chunk = 64>}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133, chunk = 64>
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_start(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected an accumulator without chunk and start}}
  %0 = repro.block_contraction split block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133, start = init>
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_group_of_step(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected no groups of products but in scaled contractions, got group = 16}}
  %0 = repro.block_contraction fused block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133, group = 16>
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_fraction(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected an accumulator of scaled products with a fraction and not late}}
  %0 = repro.block_contraction scaled block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 4, round = rne_f32, floor = 0>
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_late(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected an accumulator of scaled products with a fraction and not late}}
  %0 = repro.block_contraction scaled block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133, late = true>
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_groups(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected blocks of whole groups of 16 products, got blocks of 24}}
  %0 = repro.block_contraction scaled block = 24 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133, group = 16>
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_scales(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected scales of f8E8M0FNU or f8E4M3FN as factors of products, got 'f32'}}
  %0 = repro.block_contraction scaled block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133>
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x3xf32>, tensor<8x96xf4E2M1FN>, tensor<8x3xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_sums(%x: tensor<8x96xf8E4M3FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected groups of products whose sums have at most 62 bits, got 32 of 'f8E4M3FN' and 'f8E4M3FN'}}
  %0 = repro.block_contraction scaled block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 128, fraction = 40, round = rz_f32, floor = -133, group = 32>
      ins(%x, %s, %x, %s : tensor<8x96xf8E4M3FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf8E4M3FN>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_number_of_elements(%x: tensor<8x96xf8E4M3FN>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected two types of codes as 'elements', got [f4E2M1FN]}}
  %0 = repro.block_contraction scaled block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133> elements = [f4E2M1FN]
      ins(%x, %s, %x, %s : tensor<8x96xf8E4M3FN>, tensor<8x3xf32>, tensor<8x96xf8E4M3FN>, tensor<8x3xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_elements(%x: tensor<8x96xf8E4M3FN>, %s: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected two types of codes as 'elements', got [f4E2M1FN, f32]}}
  %0 = repro.block_contraction scaled block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133> elements = [f4E2M1FN, f32]
      ins(%x, %s, %x, %s : tensor<8x96xf8E4M3FN>, tensor<8x3xf32>, tensor<8x96xf8E4M3FN>, tensor<8x3xf32>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_held_elements(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(M5) expected f8E4M3FN that holds other codes, got 'f4E2M1FN'}}
  %0 = repro.block_contraction scaled block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133> elements = [f4E2M1FN, f4E2M1FN]
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf4E2M1FN>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @M5_codes(%x: tensor<8x96xf8E5M2>, %s: tensor<8x3xf8E8M0FNU>, %i: tensor<8x8xf32>) {
  // expected-error @+1 {{(Q4) expected codes of f8E4M3FN, f6 or f4, or integers with fraction bits, got 'f8E5M2'}}
  %0 = repro.block_contraction scaled block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133>
      ins(%x, %s, %x, %s : tensor<8x96xf8E5M2>, tensor<8x3xf8E8M0FNU>, tensor<8x96xf8E5M2>, tensor<8x3xf8E8M0FNU>) outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
