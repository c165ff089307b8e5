func.func @main(%arg0: tensor<64xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<4x64x2xf32>) -> (tensor<64xf32>, tensor<4x4xf32>, tensor<4x64x2xf32>, tensor<192xf32>, tensor<4x4xf32>, tensor<4x64x2xf32>, tensor<4xf16>, tensor<4x4xf32>, tensor<192xf32>) attributes {repro.num_state = 3 : i64} {
  %v1 = tensor.expand_shape %arg2 [[0, 1], [2, 3], [4]] output_shape [2, 2, 32, 2, 2] : tensor<4x64x2xf32> into tensor<2x2x32x2x2xf32>
  %v2 = tensor.concat dim(0) %arg0, %arg0, %arg0 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<192xf32>
  %v3 = tensor.empty() : tensor<4x4xf32>
  %v4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} 
    outs(%v3 : tensor<4x4xf32>) {
  ^bb0(%o0: f32):
    %s0 = linalg.index 0 : index
    %s1 = arith.muli %s0, %s0 : index
    %s2 = arith.index_cast %s0 : index to i64
    %s3 = arith.sitofp %s2 : i64 to f32
    %s4 = arith.cmpf une, %s3, %s3 : f32
    %s5 = arith.uitofp %s2 : i64 to f32
    %s6 = math.fma %s5, %s5, %s3 : f32
    linalg.yield %s5 : f32
  } -> (tensor<4x4xf32>)
  %v5 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
    maps [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>]
    iterators [parallel, parallel, reduction] ins(%arg1, %arg1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%v4 : tensor<4x4xf32>) {
  ^bb0(%x0: f32, %x1: f32, %a0: f32):
    %s0 = math.fma %x0, %x1, %a0 : f32
    repro.yield %s0 : f32
  } -> tensor<4x4xf32>
  %v6 = arith.constant dense<10.0> : tensor<9223372036854775807x4x64x2xf32>
  %v7 = tensor.empty() : tensor<4x0xi64>
  %v8 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} 
    outs(%v7 : tensor<4x0xi64>) {
  ^bb0(%o0: i64):
    %s0 = linalg.index 0 : index
    %s1 = linalg.index 1 : index
    %s2 = arith.index_cast %s0 : index to i64
    %s3 = arith.uitofp %s2 : i64 to f8E5M2
    %s4 = math.floor %s3 : f8E5M2
    %s5 = arith.fptoui %s4 : f8E5M2 to i64
    %s6 = arith.index_cast %s5 : i64 to index
    %s7 = arith.index_cast %s6 : index to i64
    linalg.yield %s7 : i64
  } -> (tensor<4x0xi64>)
  %v9 = repro.scatter replace ins(%v6, %v8 : tensor<4x4x64x2xf32>, tensor<4x0xi64>) outs(%arg2 : tensor<4x64x2xf32>) -> tensor<4x64x2xf32>
  %v10 = tensor.empty() : tensor<4xf16>
  %v11 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} 
    outs(%v10 : tensor<4xf16>) {
  ^bb0(%o0: f16):
    %s0 = linalg.index 0 : index
    %s1 = arith.index_cast %s0 : index to i64
    %s2 = arith.uitofp %s1 : i64 to f8E5M2
    %s3 = math.roundeven %s2 : f8E5M2
    %s4 = arith.fptosi %s3 : f8E5M2 to i64
    %s5 = arith.index_castui %s4 : i64 to index
    %s6 = arith.index_cast %s4 : i64 to index
    %s7 = arith.xori %s5, %s6 : index
    %s8 = linalg.index 0 : index
    %s9 = arith.sitofp %s1 : i64 to f16
    linalg.yield %s9 : f16
  } -> (tensor<4xf16>)
  %v12 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
    maps [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1, d1)>, affine_map<(d0, d1) -> (d1)>]
    iterators [reduction, parallel] ins(%arg1, %arg1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%v11 : tensor<4xf16>) {
  ^bb0(%x0: f32, %x1: f32, %a0: f32):
    %s0 = arith.mulf %a0, %x0 : f32
    repro.yield %s0 : f32
  } -> tensor<4xf16>
  return %arg0, %v5, %v9, %v2, %v5, %v9, %v12, %v5, %v2 : tensor<64xf32>, tensor<4x4xf32>, tensor<4x64x2xf32>, tensor<192xf32>, tensor<4x4xf32>, tensor<4x64x2xf32>, tensor<4xf16>, tensor<4x4xf32>, tensor<192xf32>
}
