// (H2): index expressions that MLIR simplifies when they are built in the order of their terms: what is written is read.
// RUN: %python -c "import sys; from repro_mlir.program.canonical import from_bytes, to_bytes; print(from_bytes(to_bytes(sys.stdin.read())))" < %s | FileCheck %s

// CHECK-DAG: #[[MOD:.+]] = affine_map<(d0, d1, d2) -> (d0 mod 2 + 4)>
// CHECK-DAG: #[[DIV:.+]] = affine_map<(d0, d1, d2) -> (d2 + (d0 + d1) floordiv 4)>
// CHECK-DAG: #[[BOTH:.+]] = affine_map<(d0, d1, d2) -> ((d0 mod 2) floordiv 4 + 2)>
// CHECK-DAG: #[[ID:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK: indexing_maps = [#[[MOD]], #[[DIV]], #[[BOTH]], #[[ID]]]
func.func @main(%x: tensor<99xf32>) -> tensor<5x6x7xf32> attributes {repro.num_state = 0 : i64} {
  %e = tensor.empty() : tensor<5x6x7xf32>
  %0 = linalg.generic {indexing_maps = [
        affine_map<(d0, d1, d2) -> ((d0 floordiv 2) * -2 + d0 + 4)>,
        affine_map<(d0, d1, d2) -> (((d0 + d2 * 4) + d1) floordiv 4)>,
        affine_map<(d0, d1, d2) -> (((d0 floordiv 2) * -2 + d0 + 8) floordiv 4)>,
        affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %x, %x : tensor<99xf32>, tensor<99xf32>, tensor<99xf32>) outs(%e : tensor<5x6x7xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    %t = arith.addf %s, %c : f32
    linalg.yield %t : f32
  } -> tensor<5x6x7xf32>
  return %0 : tensor<5x6x7xf32>
}
