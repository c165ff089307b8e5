# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that a store of only the last element of a vector does not write after it."""

from __future__ import annotations

import numpy as np
import pytest
from repro_mlir.compilation import cpu
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference.interpreter import Interpreter

PROGRAM = """
#map = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<3x65x{wide}>, %y: tensor<3x{wide}>) -> tensor<3x65x{narrow}>
    attributes {{repro.num_state = 0 : i64}} {{
  %empty = tensor.empty() : tensor<3x65x{narrow}>
  %out = linalg.generic {{
      indexing_maps = [#map, affine_map<(i, j) -> (i)>, #map], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %y : tensor<3x65x{wide}>, tensor<3x{wide}>) outs(%empty : tensor<3x65x{narrow}>) {{
  ^bb0(%a: {wide}, %b: {wide}, %unused: {narrow}):
    %sum = arith.{add} %a, %b : {wide}
    %result = arith.{truncate} %sum : {wide} to {narrow}
    linalg.yield %result : {narrow}
  }} -> tensor<3x65x{narrow}>
  return %out : tensor<3x65x{narrow}>
}}
"""


@pytest.mark.parametrize(
    ("wide", "narrow"), [("f32", "bf16"), ("f32", "f16"), ("f64", "f32"), ("i32", "i8"), ("i32", "i16"), ("i64", "i32")]
)
@pytest.mark.parametrize("level", cpu.runnable_levels())
def test_nothing_after_the_last_element_is_written(level: str, wide: str, narrow: str) -> None:
    is_float = wide.startswith("f")
    names = {"add": "addf", "truncate": "truncf"} if is_float else {"add": "addi", "truncate": "trunci"}
    text = PROGRAM.format(wide=wide, narrow=narrow, **names)
    rng = np.random.default_rng(3)
    inputs = [(100 * rng.standard_normal(shape)).astype(f"{wide[0]}{int(wide[1:]) // 8}") for shape in ((3, 65), (3,))]
    (expected,) = Interpreter(to_bytes(text)).run(*inputs)
    if narrow == "bf16":
        expected = (expected.view(np.uint32) >> 16).astype(np.uint16)

    executable = CpuBackend(cpu.compile(text, level), 1)
    dtype = executable.outputs[0].dtype
    guarded = np.frombuffer(bytearray(b"\x5a" * (dtype.itemsize * (3 * 65 + 16))), dtype)
    executable.run([], inputs, [guarded[: 3 * 65].reshape(3, 65)])
    assert guarded[: 3 * 65].tobytes() == expected.astype(dtype).tobytes()
    assert guarded[3 * 65 :].tobytes() == b"\x5a" * (16 * dtype.itemsize)
