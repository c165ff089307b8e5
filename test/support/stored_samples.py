# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Texts of programs, for tests that compare stored bytes: a small program, and programs with all operations, formats of
constants, locations and block formats."""

PROGRAM = """
#id = affine_map<(d0) -> (d0)>
#s = affine_map<(d0) -> ()>
func.func @main(%w: tensor<8xf32> {repro.name = "w"}, %seed: tensor<i64>, %x: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<i64>, tensor<f32>) attributes {repro.num_state = 2 : i64} {
  %zero = arith.constant 0.0 : f32
  %table = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %same = arith.constant dense<7> : tensor<8xi8>
  %key = tensor.extract %seed[] : tensor<i64>
  %empty = tensor.empty() : tensor<8xf32>
  %noise = repro.random uniform site = 3 ins(%key, %key : i64, i64) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
  %new = linalg.generic {indexing_maps = [#id, #id, #id, #id, #id], iterator_types = ["parallel"]}
      ins(%noise, %x, %table, %same : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xi8>)
      outs(%empty : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: i8, %out: f32):
    %e = arith.subf %a, %b : f32
    %f = math.fma %e, %c, %zero : f32
    %g = arith.cmpf olt, %f, %a : f32
    cf.assert %g, "message"
    linalg.yield %f : f32
  } -> tensor<8xf32>
  %scalar = tensor.empty() : tensor<f32>
  %start = linalg.generic {indexing_maps = [affine_map<() -> ()>], iterator_types = []} outs(%scalar : tensor<f32>) {
  ^bb0(%out: f32):
    linalg.yield %zero : f32
  } -> tensor<f32>
  %sum = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold> maps [#id, #s]
      iterators [reduction] ins(%new : tensor<8xf32>) outs(%start : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %b = arith.addf %a, %acc : f32
    repro.yield %b : f32
  } -> tensor<f32>
  return %new, %seed, %sum : tensor<8xf32>, tensor<i64>, tensor<f32>
}
"""

EVERYTHING = """
func.func @main(%x: tensor<4x8xf32>, %i: tensor<6x1xi64>, %u: tensor<6x8xbf16>, %o: tensor<10x8xbf16>)
    -> (tensor<4xf32>, tensor<4xi64>, tensor<10x8xbf16>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>,
        tensor<6x8xf32>, tensor<2x2xf32>, tensor<2x2x8xf32>, tensor<f64>) attributes {repro.num_state = 0 : i64} {
  %c = arith.constant -1.5 : f32
  %inf = arith.constant 0xFF800000 : f32
  %d = arith.constant dense<[0.1, -0.0]> : tensor<2xf64>
  %h = arith.constant dense<1.0e-7> : tensor<2xf16>
  %b = arith.constant 1.0e-40 : bf16
  %nan = arith.constant 0xFFC1 : bf16
  %e5m2 = arith.constant dense<1.5> : tensor<3xf8E5M2>
  %t = arith.constant dense<[true, false]> : tensor<2xi1>
  %n = arith.constant dense<-3> : tensor<2x2xi16>
  %k = arith.constant 1 : index
  %e4 = tensor.empty() : tensor<4xf32>
  %e4i = tensor.empty() : tensor<4xi64>
  %e48 = tensor.empty() : tensor<4x8xf32>
  %0:2 = repro.arg_reduce min dimension = 1 ins(%x : tensor<4x8xf32>) outs(%e4, %e4i : tensor<4xf32>, tensor<4xi64>)
      -> tensor<4xf32>, tensor<4xi64>
  %1 = repro.scatter maximum ins(%u, %i : tensor<6x8xbf16>, tensor<6x1xi64>) outs(%o : tensor<10x8xbf16>)
      -> tensor<10x8xbf16>
  %2 = repro.scan mul dimension = 0 ins(%x : tensor<4x8xf32>) outs(%e48 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = repro.sort descending dimension = 1 ins(%x : tensor<4x8xf32>) outs(%e48 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = tensor.concat dim(0) %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %5 = tensor.pad %x low[1, 0] high[1, 0] {
  ^bb0(%p: index, %q: index):
    tensor.yield %inf : f32
  } : tensor<4x8xf32> to tensor<6x8xf32>
  %6 = tensor.extract_slice %x[1, 2] [2, 2] [1, 3] : tensor<4x8xf32> to tensor<2x2xf32>
  %7 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 2, 8] : tensor<4x8xf32> into tensor<2x2x8xf32>
  %s = tensor.empty() : tensor<f64>
  %8 = linalg.generic {indexing_maps = [affine_map<() -> ()>], iterator_types = []} outs(%s : tensor<f64>) {
  ^bb0(%out: f64):
    %9 = tensor.extract %d[%k] : tensor<2xf64>
    linalg.yield %9 : f64
  } -> tensor<f64>
  return %0#0, %0#1, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<4xf32>, tensor<4xi64>, tensor<10x8xbf16>, tensor<4x8xf32>,
      tensor<4x8xf32>, tensor<8x8xf32>, tensor<6x8xf32>, tensor<2x2xf32>, tensor<2x2x8xf32>, tensor<f64>
}
"""

MANY_FORMS = """
func.func @main(%x: tensor<5x7xf16>, %y: tensor<3x5x2xi1>) -> (tensor<5x7xf16>, tensor<3x5x2xi1>, tensor<0x3xi8>)
    attributes {repro.num_state = 0 : i64} {
  %raw = arith.constant dense<"0x0080FFFF0100FF7C"> : tensor<4xf16>
  %many = arith.constant dense<"0xHALVES"> : tensor<128xf16>
  %bits = arith.constant dense<"0xBITS"> : tensor<250xi1>
  %none = arith.constant dense<> : tensor<0x3xi8>
  %wide = arith.constant dense<[-9223372036854775808, 9223372036854775807]> : tensor<2xi64>
  %tiny = arith.constant dense<[5.9604645e-08, 6.0975552e-05, -65504.0]> : tensor<3xf16>
  %e4 = arith.constant dense<[448.0, -0.0, 1.953125e-3, 0x7F, 0xFF]> : tensor<5xf8E4M3FN>
  %true = arith.constant true
  %e = tensor.empty() : tensor<5x7xf16>
  %0 = linalg.generic {indexing_maps = [
        affine_map<(d0, d1) -> (4 - d0, d1 mod 7)>, affine_map<(d0, d1) -> ((d0 * 7 + d1 * 2) floordiv 11)>,
        affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %raw : tensor<5x7xf16>, tensor<4xf16>) outs(%e : tensor<5x7xf16>) {
  ^bb0(%a: f16, %b: f16, %out: f16):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %c = arith.cmpi ult, %j, %j : i64
    %f = arith.extf %a : f16 to f32
    %g = arith.extf %b : f16 to f32
    %d = arith.cmpf une, %f, %g : f32
    %s = arith.select %c, %a, %b : f16
    linalg.yield %s : f16
  } -> tensor<5x7xf16>
  return %0, %y, %none : tensor<5x7xf16>, tensor<3x5x2xi1>, tensor<0x3xi8>
}
"""

MANY_FORMS = MANY_FORMS.replace("HALVES", bytes(range(256)).hex()).replace("BITS", bytes(range(200, 232)).hex())

LINES = """
func.func @main(%x: tensor<4xf32> {repro.name = "\\C3\\A9"}) -> (tensor<4xf32> {repro.name = "y"})
    attributes {repro.num_state = 0 : i64} {
  %t = arith.constant true loc("module encoder.0")
  cf.assert %t, "first" loc("model.py":7:3)
  cf.assert %t, "second" loc("node"("model.py":8:3))
  return %x : tensor<4xf32> loc(fused["a.py":1:2, "b.py":3:4])
}
"""

BLOCKS = """
func.func @main(%x: tensor<4x6xf32>, %a: tensor<f32>, %r: tensor<4xf32>, %k: tensor<i64>)
    -> (tensor<4x6xf4E2M1FN>, tensor<4x2xf8E8M0FNU>, tensor<4x6xf4E2M1FN>, tensor<4x2xf8E4M3FN>, tensor<4x6xf32>,
        tensor<4x6xi8>, tensor<1x1xf32>, tensor<4x6xf6E3M2FN>, tensor<2x6xf32>, tensor<4xf6E2M3FN>)
    attributes {repro.num_state = 0 : i64} {
  %n = tensor.extract %k[] : tensor<i64>
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 4,
      scale = #repro.power_scale<rule = even, infinity = power, nan = 7, least = -126>,
      rounding = #repro.rounding<direction = sr, bits = 16, layout = ptx, nan = zero>>
      %x site = 4294967295 (%n, %n : i64, i64) : tensor<4x6xf32> -> tensor<4x6xf4E2M1FN>, tensor<4x2xf8E8M0FNU>
  %1:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 4,
      scale = #repro.two_level_scale<largest = 256>, rounding = #repro.rounding<direction = away, saturate = false>>
      %x tensor(%r : tensor<4xf32>) : tensor<4x6xf32> -> tensor<4x6xf4E2M1FN>, tensor<4x2xf8E4M3FN>
  %2 = repro.dequantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 4,
      scale = #repro.quotient_scale<levels = 2>, rounding = #repro.rounding<direction = rz, signed_zero = false>>
      %1#0, %1#1 tensor(%a : tensor<f32>) : tensor<4x6xf4E2M1FN>, tensor<4x2xf8E4M3FN> -> tensor<4x6xf32>
  %3:2 = repro.quantize #repro.block_format<element = i8, rows = 0, columns = 0,
      scale = #repro.f32_scale<encoding = product, least = 1.0E-12, inverse = true, power = true>,
      rounding = #repro.rounding<direction = sr, bits = 8>, symmetric = false>
      %2 site = 0 (%n, %n : i64, i64) : tensor<4x6xf32> -> tensor<4x6xi8>, tensor<1x1xf32>
  %4:2 = repro.quantize #repro.block_format<element = f6E3M2FN, rows = 2, columns = 1,
      scale = #repro.f32_scale<encoding = quotient, least = 0.5>, rounding = #repro.rounding<direction = rne>>
      %x : tensor<4x6xf32> -> tensor<4x6xf6E3M2FN>, tensor<2x6xf32>
  %5 = arith.constant dense<[0.125, -7.5, -0.0, 1.125]> : tensor<4xf6E2M3FN>
  return %0#0, %0#1, %1#0, %1#1, %2, %3#0, %3#1, %4#0, %4#1, %5 : tensor<4x6xf4E2M1FN>, tensor<4x2xf8E8M0FNU>,
      tensor<4x6xf4E2M1FN>, tensor<4x2xf8E4M3FN>, tensor<4x6xf32>, tensor<4x6xi8>, tensor<1x1xf32>,
      tensor<4x6xf6E3M2FN>, tensor<2x6xf32>, tensor<4xf6E2M3FN>
}
"""

PACKED_CODES = """
func.func @main(%c: tensor<2x3x5xf4E2M1FN>, %b: tensor<4x3xi8>)
    -> (tensor<2x3x3xi8>, tensor<4x5xf4E2M1FN>, tensor<4x6xf4E2M1FN>) attributes {repro.num_state = 0 : i64} {
  %0 = repro.pack_codes %c : tensor<2x3x5xf4E2M1FN> -> tensor<2x3x3xi8>
  %1 = repro.unpack_codes %b : tensor<4x3xi8> -> tensor<4x5xf4E2M1FN>
  %2 = repro.unpack_codes %b : tensor<4x3xi8> -> tensor<4x6xf4E2M1FN>
  return %0, %1, %2 : tensor<2x3x3xi8>, tensor<4x5xf4E2M1FN>, tensor<4x6xf4E2M1FN>
}
"""

BLOCK_CONTRACTIONS = """
module {
  func.func @main(%x: tensor<2x4x6xf4E2M1FN>, %s: tensor<2x4x2xf8E8M0FNU>, %y: tensor<2x5x6xf6E3M2FN>,
      %t: tensor<2x2x2xf8E4M3FN>, %i: tensor<4x6xi8>, %u: tensor<1x1xf32>, %j: tensor<5x6xi8>, %v: tensor<5x1xf32>,
      %a: tensor<2x4x5xf32>, %b: tensor<4x5xf32>) -> (tensor<2x4x5xf32>, tensor<4x5xf32>)
    attributes {repro.num_state = 0 : i64} {
  %0 = repro.block_contraction split block = 4 rows = [1, 3]
      ins(%x, %s, %y, %t : tensor<2x4x6xf4E2M1FN>, tensor<2x4x2xf8E8M0FNU>, tensor<2x5x6xf6E3M2FN>,
          tensor<2x2x2xf8E4M3FN>) outs(%a : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %1 = repro.block_contraction fused block = 8192 rows = [4, 1] fraction_bits = 12
      ins(%i, %u, %j, %v : tensor<4x6xi8>, tensor<1x1xf32>, tensor<5x6xi8>, tensor<5x1xf32>)
      outs(%b : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0, %1 : tensor<2x4x5xf32>, tensor<4x5xf32>
  }
}
"""

ACCUMULATED_BLOCKS = """
module {
  func.func @main(%x: tensor<2x4x40xf4E2M1FN>, %s: tensor<2x4x3xf8E4M3FN>, %y: tensor<2x5x40xf4E2M1FN>,
      %t: tensor<2x2x3xf8E8M0FNU>, %p: tensor<4x40xf8E4M3FN>, %u: tensor<1x2xf32>, %a: tensor<2x4x5xf32>,
      %b: tensor<4x4xf32>) -> (tensor<2x4x5xf32>, tensor<4x4xf32>) attributes {repro.num_state = 0 : i64} {
  %0 = repro.block_contraction scaled block = 16 rows = [1, 3]
      accumulator = #repro.fdpa<terms = 64, fraction = 35, round = rz_f32, floor = -133, group = 16>
      ins(%x, %s, %y, %t : tensor<2x4x40xf4E2M1FN>, tensor<2x4x3xf8E4M3FN>, tensor<2x5x40xf4E2M1FN>,
          tensor<2x2x3xf8E8M0FNU>) outs(%a : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %1 = repro.block_contraction split block = 32 rows = [4, 4]
      accumulator = #repro.fdpa<terms = 4, round = rne_f32, floor = 0, late = true>
      ins(%p, %u, %p, %u : tensor<4x40xf8E4M3FN>, tensor<1x2xf32>, tensor<4x40xf8E4M3FN>, tensor<1x2xf32>)
      outs(%b : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %1 : tensor<2x4x5xf32>, tensor<4x4xf32>
  }
}
"""
