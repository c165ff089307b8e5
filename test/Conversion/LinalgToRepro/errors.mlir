// RUN: %repro-opt --convert-linalg-to-repro --split-input-file --verify-diagnostics %s

#ab = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1) -> (d0)>
func.func @dynamic(%x: tensor<?x8xf32>, %o: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{operand #0 has type 'tensor<?x8xf32>', expected a static shape}}
  %0 = linalg.generic {indexing_maps = [#ab, #a], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x8xf32>) outs(%o : tensor<?xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.addf %e, %acc : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

#ab = affine_map<(d0, d1) -> (d0, d1)>
func.func @reduced_output(%x: tensor<4x8xf32>, %o: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{dimension 1 is reduction, but the map of output #0 is affine_map<(d0, d1) -> (d0, d1)>}}
  %0 = linalg.generic {indexing_maps = [#ab, #ab], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<4x8xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.addf %e, %acc : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

#a = affine_map<(d0, d1) -> (d0, d1)>
#o = affine_map<(d0, d1) -> (d0, 0)>
func.func @constant_index(%x: tensor<4x8xf32>, %o: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // expected-error @+1 {{output #0 is indexed by 0 in dimension 1, expected 0 in a dimension of extent 1, got extent 2}}
  %0 = linalg.generic {indexing_maps = [#a, #o], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%o : tensor<4x2xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %s = arith.addf %e, %acc : f32
    linalg.yield %s : f32
  } -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// -----

func.func @memref(%a: memref<4x4xf32>) {
  // expected-error @+1 {{expected a reduction of tensors}}
  linalg.matmul ins(%a, %a : memref<4x4xf32>, memref<4x4xf32>) outs(%a : memref<4x4xf32>)
  return
}
