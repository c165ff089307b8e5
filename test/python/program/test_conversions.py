# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V1) Conversions between two storage types: which of them a canonical program may have as one operation."""

import pytest
from repro_mlir import ReproError
from repro_mlir.program.canonical import to_bytes

MODULE = """
func.func @main(%x: tensor<2x{a}>) -> tensor<2x{b}> attributes {{repro.num_state = 0 : i64}} {{
  %e = tensor.empty() : tensor<2x{b}>
  %0 = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}} ins(%x : tensor<2x{a}>) outs(%e : tensor<2x{b}>) {{
  ^bb0(%a: {a}, %o: {b}):
    %b = arith.{name} %a : {a} to {b}
    linalg.yield %b : {b}
  }} -> tensor<2x{b}>
  return %0 : tensor<2x{b}>
}}
"""
TAKEN = [
    *(("extf", "f16", "f32"), ("extf", "f16", "f64"), ("extf", "f8E4M3FN", "f16"), ("extf", "f4E2M1FN", "f8E4M3FN")),
    *(("truncf", "f64", "f16"), ("truncf", "f16", "f8E4M3FN"), ("truncf", "bf16", "f8E5M2")),
    *(("sitofp", "i16", "f16"), ("uitofp", "i8", "f8E4M3FN")),
]
REFUSED = [
    *(("fptosi", "f16", "i16"), ("fptoui", "bf16", "i8"), ("fptosi", "f8E4M3FN", "i32")),
    *(("truncf", "f8E4M3FN", "f8E5M2"), ("truncf", "f16", "bf16"), ("truncf", "f32", "f8E8M0FNU")),
    *(("extf", "f6E2M3FN", "f8E5M2"), ("extf", "f8E8M0FNU", "f16")),
]


def test_V1_conversions_of_a_canonical_program() -> None:
    for name, a, b in TAKEN:
        to_bytes(MODULE.format(name=name, a=a, b=b))
    for name, a, b in REFUSED:
        with pytest.raises(ReproError, match="expected a canonical program"):
            to_bytes(MODULE.format(name=name, a=a, b=b))
