// RUN: repro-opt %s --repro-decompose-blocks | FileCheck %s
// RUN: repro-opt %s --repro-decompose-blocks=fill-steps=true | FileCheck %s --check-prefix=STEPS

// (Q2) The last blocks of 70 columns are padded; a fold computes the amax, one op the scales, one op the codes.
// CHECK-LABEL: func.func @Q1_Q2_Q3_quantize
// CHECK-SAME: (%[[X:.*]]: tensor<6x70xf32>) -> (tensor<6x70xi8>, tensor<6x3xi8>)
func.func @Q1_Q2_Q3_quantize(%x: tensor<6x70xf32>) -> (tensor<6x70xf4E2M1FN>, tensor<6x3xf8E8M0FNU>) {
  // CHECK: %[[PADDED:.*]] = tensor.pad %[[X]] low[0, 0] high[0, 26]
  // CHECK: %[[TILES:.*]] = tensor.expand_shape %[[PADDED]] {{.*}} : tensor<6x96xf32> into tensor<6x1x3x32xf32>
  // CHECK: repro.fold #repro.any_order
  // CHECK-SAME: ins(%[[TILES]] : tensor<6x1x3x32xf32>) outs(%{{.*}} : tensor<6x3xf32>)
  // CHECK: math.absf
  // CHECK: arith.maximumf
  // CHECK: %[[SCALES:.*]]:2 = linalg.generic {{.*}} outs(%{{.*}}, %{{.*}} : tensor<6x3xi8>, tensor<6x3xf32>)
  // CHECK: %[[CODES:.*]] = linalg.generic {{.*}} ins(%[[TILES]], %[[SCALES]]#1 : {{.*}}) outs(%{{.*}} : tensor<6x1x3x32xi8>)
  // CHECK: %[[WHOLE:.*]] = tensor.collapse_shape %[[CODES]] {{.*}} into tensor<6x96xi8>
  // CHECK: %[[RESULT:.*]] = tensor.extract_slice %[[WHOLE]][0, 0] [6, 70] [1, 1]
  // CHECK: return %[[RESULT]], %[[SCALES]]#0
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32,
      scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>
      %x : tensor<6x70xf32> -> tensor<6x70xf4E2M1FN>, tensor<6x3xf8E8M0FNU>
  return %0#0, %0#1 : tensor<6x70xf4E2M1FN>, tensor<6x3xf8E8M0FNU>
}

// Quantization groups neighbours in memory: rows and columns of the result are those of the permuted tensor.
// CHECK-LABEL: func.func @Q2_permuted
// CHECK-SAME: (%[[X:.*]]: tensor<64x6xf32>) -> (tensor<6x64xi8>, tensor<6x2xi8>)
func.func @Q2_permuted(%x: tensor<64x6xf32>) -> (tensor<6x64xf4E2M1FN>, tensor<6x2xf8E8M0FNU>) {
  %e = tensor.empty() : tensor<6x64xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x6xf32>) outs(%e : tensor<6x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<6x64xf32>
  // CHECK: %[[TILES:.*]] = tensor.expand_shape %[[X]] {{.*}} : tensor<64x6xf32> into tensor<2x32x6x1xf32>
  // CHECK: repro.fold {{.*}} ins(%[[TILES]] : tensor<2x32x6x1xf32>) outs(%{{.*}} : tensor<2x6xf32>)
  // CHECK: %[[CODES:.*]] = linalg.generic {{.*}} ins(%[[TILES]], {{.*}} outs(%{{.*}} : tensor<2x32x6x1xi8>)
  // CHECK: %[[WHOLE:.*]] = tensor.collapse_shape %[[CODES]] {{.*}} into tensor<64x6xi8>
  // CHECK: linalg.generic {{.*}} ins(%[[WHOLE]] : tensor<64x6xi8>) outs(%{{.*}} : tensor<6x64xi8>)
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32,
      scale = #repro.power_scale<rule = rceil>, rounding = #repro.rounding<direction = rne>>
      %t : tensor<6x64xf32> -> tensor<6x64xf4E2M1FN>, tensor<6x2xf8E8M0FNU>
  return %0#0, %0#1 : tensor<6x64xf4E2M1FN>, tensor<6x2xf8E8M0FNU>
}

// A block with more rows than the tensor covers all rows. Elements of f8 stay f8.
// CHECK-LABEL: func.func @Q2_large_tile
func.func @Q2_large_tile(%x: tensor<6x70xf32>) -> tensor<6x70xf8E4M3FN> {
  // CHECK-NOT: tensor.pad
  // CHECK: tensor.expand_shape %{{.*}} into tensor<1x6x1x70xf32>
  // CHECK: arith.bitcast %{{.*}} : i8 to f8E4M3FN
  %0:2 = repro.quantize #repro.block_format<element = f8E4M3FN, rows = 2147483648, columns = 0,
      scale = #repro.f32_scale<encoding = quotient, least = 1.0E-4>, rounding = #repro.rounding<direction = rne>>
      %x : tensor<6x70xf32> -> tensor<6x70xf8E4M3FN>, tensor<1x1xf32>
  return %0#0 : tensor<6x70xf8E4M3FN>
}

// (R1) Each element uses one random word; with `ptx`, four elements share a word.
// CHECK-LABEL: func.func @Q3_stochastic
func.func @Q3_stochastic(%x: tensor<3x7xf32>, %seed: i64, %step: i64) -> (tensor<3x7xf4E2M1FN>, tensor<3x7xf4E2M1FN>) {
  // CHECK: repro.random bits site = 3 {{.*}} outs(%{{.*}} : tensor<3x7xi32>)
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 0,
      scale = #repro.power_scale<rule = floor>, rounding = #repro.rounding<direction = sr, bits = 8>>
      %x site = 3 (%seed, %step : i64, i64) : tensor<3x7xf32> -> tensor<3x7xf4E2M1FN>, tensor<3x1xf8E8M0FNU>
  // CHECK: repro.random bits site = 4 {{.*}} outs(%{{.*}} : tensor<6xi32>)
  %1:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 0,
      scale = #repro.power_scale<rule = floor>, rounding = #repro.rounding<direction = sr, bits = 16, layout = ptx>>
      %x site = 4 (%seed, %step : i64, i64) : tensor<3x7xf32> -> tensor<3x7xf4E2M1FN>, tensor<3x1xf8E8M0FNU>
  return %0#0, %1#0 : tensor<3x7xf4E2M1FN>, tensor<3x7xf4E2M1FN>
}

// (V1) Constants and moved values become bytes; a conversion reads the bytes as fields of an f32.
// CHECK-LABEL: func.func @V1_bytes
// CHECK-SAME: (%[[X:.*]]: tensor<4xi8>) -> (tensor<4xf32>, tensor<4xi8>)
func.func @V1_bytes(%x: tensor<4xf6E3M2FN>) -> (tensor<4xf32>, tensor<4xf4E2M1FN>) {
  // CHECK: arith.constant dense<[1, 15, 8, 3]> : tensor<4xi8>
  %c = arith.constant dense<[0.5, -6.0, -0.0, 1.5]> : tensor<4xf4E2M1FN>
  %e = tensor.empty() : tensor<4xf32>
  // CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<4xi8>)
  // CHECK: %[[CODE:.*]] = arith.extui %{{.*}} : i8 to i32
  // CHECK: arith.bitcast %{{.*}} : i32 to f32
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf6E3M2FN>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f6E3M2FN, %b: f32):
    %1 = arith.extf %a : f6E3M2FN to f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0, %c : tensor<4xf32>, tensor<4xf4E2M1FN>
}

// (Q4) Integers are padded to whole blocks; scales become f32.
// CHECK-LABEL: func.func @Q4_contraction
func.func @Q4_contraction(%x: tensor<4x40xf4E2M1FN>, %s: tensor<4x3xf8E8M0FNU>, %y: tensor<5x40xf6E3M2FN>,
    %t: tensor<5x3xf8E4M3FN>, %i: tensor<4x5xf32>) -> tensor<4x5xf32> {
  // CHECK: %[[A:.*]] = tensor.pad %{{.*}} low[0, 0] high[0, 8]
  // CHECK: %[[B:.*]] = tensor.pad %{{.*}} low[0, 0] high[0, 8]
  // CHECK: repro.block_contraction fused block = 16 rows = [1, 1] fraction_bits = 5 magnitudes = [12, 448]
  // CHECK-SAME: ins(%[[A]], %{{.*}}, %[[B]], %{{.*}} : tensor<4x48xi8>, tensor<4x3xf32>, tensor<5x48xi16>, tensor<5x3xf32>)
  %0 = repro.block_contraction fused block = 16 rows = [1, 1]
      ins(%x, %s, %y, %t : tensor<4x40xf4E2M1FN>, tensor<4x3xf8E8M0FNU>, tensor<5x40xf6E3M2FN>, tensor<5x3xf8E4M3FN>)
      outs(%i : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// (Q4) A single block is padded to whole matrix instructions if these accept the number of rows.
// CHECK-LABEL: func.func @Q4_single_block
// CHECK-NOT: tensor.pad
// STEPS-LABEL: func.func @Q4_single_block
func.func @Q4_single_block(%x: tensor<9x100xi8>, %s: tensor<9x1xf32>, %y: tensor<8x100xi8>, %t: tensor<8x1xf32>,
    %i: tensor<9x8xf32>, %z: tensor<7x100xi8>, %u: tensor<7x1xf32>, %j: tensor<9x7xf32>)
    -> (tensor<9x8xf32>, tensor<9x7xf32>) {
  // STEPS: %[[X:.*]] = tensor.pad %{{.*}} low[0, 0] high[0, 28]
  // STEPS: %[[Y:.*]] = tensor.pad %{{.*}} low[0, 0] high[0, 28]
  // STEPS: repro.block_contraction fused block = 128 rows = [1, 1] fraction_bits = 12
  // STEPS-SAME: ins(%[[X]], %{{.*}}, %[[Y]], %{{.*}} : tensor<9x128xi8>, tensor<9x1xf32>, tensor<8x128xi8>, tensor<8x1xf32>)
  %0 = repro.block_contraction fused block = 100 rows = [1, 1] fraction_bits = 12
      ins(%x, %s, %y, %t : tensor<9x100xi8>, tensor<9x1xf32>, tensor<8x100xi8>, tensor<8x1xf32>)
      outs(%i : tensor<9x8xf32>) -> tensor<9x8xf32>
  // STEPS-NOT: tensor.pad
  // STEPS: repro.block_contraction fused block = 100 rows = [1, 1] fraction_bits = 12
  %1 = repro.block_contraction fused block = 100 rows = [1, 1] fraction_bits = 12
      ins(%x, %s, %z, %u : tensor<9x100xi8>, tensor<9x1xf32>, tensor<7x100xi8>, tensor<7x1xf32>)
      outs(%j : tensor<9x7xf32>) -> tensor<9x7xf32>
  return %0, %1 : tensor<9x8xf32>, tensor<9x7xf32>
}

// (M5) Codes become f8E4M3FN with their former types, without padding; a scale of f8E4M3FN that is a factor stays.
// CHECK-LABEL: func.func @M5_contraction
func.func @M5_contraction(%x: tensor<4x40xf4E2M1FN>, %s: tensor<4x3xf8E8M0FNU>, %y: tensor<5x40xf6E3M2FN>,
    %t: tensor<5x3xf8E4M3FN>, %i: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
  // CHECK-NOT: tensor.pad
  // CHECK: repro.block_contraction scaled block = 16 rows = [1, 1] accumulator = #{{.*}} elements = [f4E2M1FN, f6E3M2FN]
  // CHECK-SAME: tensor<4x40xf8E4M3FN>, tensor<4x3xf32>, tensor<5x40xf8E4M3FN>, tensor<5x3xf8E4M3FN>)
  %0 = repro.block_contraction scaled block = 16 rows = [1, 1]
      accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133>
      ins(%x, %s, %y, %t : tensor<4x40xf4E2M1FN>, tensor<4x3xf8E8M0FNU>, tensor<5x40xf6E3M2FN>, tensor<5x3xf8E4M3FN>)
      outs(%i : tensor<4x5xf32>) -> tensor<4x5xf32>
  // CHECK: repro.block_contraction split block = 16 rows = [1, 1] accumulator = #{{.*}} elements = [f4E2M1FN, f6E3M2FN]
  // CHECK-SAME: tensor<4x40xf8E4M3FN>, tensor<4x3xf32>, tensor<5x40xf8E4M3FN>, tensor<5x3xf32>)
  %1 = repro.block_contraction split block = 16 rows = [1, 1]
      accumulator = #repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133>
      ins(%x, %s, %y, %t : tensor<4x40xf4E2M1FN>, tensor<4x3xf8E8M0FNU>, tensor<5x40xf6E3M2FN>, tensor<5x3xf8E4M3FN>)
      outs(%i : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0, %1 : tensor<4x5xf32>, tensor<4x5xf32>
}

// CHECK-LABEL: func.func @on_buffers
func.func @on_buffers(%x: memref<4x40xf8E4M3FN>, %s: memref<4x2xf8E8M0FNU>, %i: memref<4x4xf32>) {
  // CHECK: repro.block_contraction fused block = 32 rows = [1, 1] ins(%{{.*}} : memref<4x40xf8E4M3FN>
  repro.block_contraction fused block = 32 rows = [1, 1]
      ins(%x, %s, %x, %s : memref<4x40xf8E4M3FN>, memref<4x2xf8E8M0FNU>, memref<4x40xf8E4M3FN>, memref<4x2xf8E8M0FNU>)
      outs(%i : memref<4x4xf32>)
  return
}
