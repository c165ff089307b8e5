# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Contractions in device code, with every tile shape and with whole and partial tiles, have the bits of compiled CPU
code."""

from __future__ import annotations

import numpy as np
import pytest
from repro_mlir.compilation import cpu
from repro_mlir.execute.cpu import CpuBackend
from support import device_kit

PROGRAM = """
func.func @main(%a: tensor<{a}xf32>, %b: tensor<{b}xf32>, %c: tensor<{c}xf32>) -> tensor<{c}xf32>
    attributes {{repro.num_state = 0 : i64}} {{
  %r = repro.fold #repro.order<chunk = {chunk}, lanes = 1, run = 0, totals = sequential>
    maps [affine_map<(h, i, j, k) -> (h, {am})>, affine_map<(h, i, j, k) -> (h, {bm})>,
          affine_map<(h, i, j, k) -> (h, i, j)>]
    iterators [parallel, parallel, parallel, reduction] ins(%a, %b : tensor<{a}xf32>, tensor<{b}xf32>)
    outs(%c : tensor<{c}xf32>) {{
  ^bb0(%x: f32, %y: f32, %s: f32):
    %f = math.fma %x, %y, %s : f32
    repro.yield %f : f32
  }} -> tensor<{c}xf32>
  return %r : tensor<{c}xf32>
}}
"""


@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "chunk", "layout"),
    [
        (64, 128, 128, 48, 512, "nn"),  # the largest tile in one chunk
        (64, 128, 128, 37, 512, "tn"),
        (64, 128, 128, 20, 8, "nt"),  # the largest tile in several chunks
        (130, 100, 128, 40, 16, "nt"),  # chunks one after the other, partial tiles of rows
        (129, 97, 101, 21, 8, "nn"),  # no extent is a multiple of the vector size
        (130, 64, 64, 40, 16, "tn"),  # the medium tile
        (1, 70, 68, 1100, 512, "nn"),  # one thread block per chunk
        (2, 8, 200, 1030, 512, "nt"),  # few rows
        (3, 200, 5, 600, 512, "nn"),  # the chunk is not a multiple of a K-slice
        (130, 32, 33, 50, 20, "tt"),  # chunks with partial slices
    ],
)
def test_tiles(batch: int, m: int, n: int, k: int, chunk: int, layout: str) -> None:
    a, am = ((batch, m, k), "i, k") if layout[0] == "n" else ((batch, k, m), "k, i")
    b, bm = ((batch, k, n), "k, j") if layout[1] == "n" else ((batch, n, k), "j, k")
    c = (batch, m, n)
    text = {name: "x".join(map(str, shape)) for name, shape in (("a", a), ("b", b), ("c", c))}
    program = PROGRAM.format(**text, am=am, bm=bm, chunk=chunk)
    random = np.random.default_rng(m * n + k)
    inputs = [random.standard_normal(shape, np.float32) for shape in (a, b, c)]
    inputs[0].reshape(-1)[:4] = -0.0, 1e-42, np.inf, -3e38
    want = CpuBackend(cpu.compile(program)).run([], [x.copy() for x in inputs])[0]
    got = device_kit.run(program, inputs, "sm_75")[0]
    assert np.array_equal(got, np.ascontiguousarray(want).view(np.uint32))


@pytest.mark.parametrize(
    ("arch", "batch", "m", "n", "k", "chunk", "options"),
    [
        ("sm_75", 64, 64, 64, 80, 32, {"checked": True}),
        ("sm_75", 1, 70, 68, 40, 16, {"checked": True}),  # one thread block per chunk
        ("sm_75", 130, 64, 64, 40, 16, {"checked": True}),  # chunks one after the other
        ("sm_90", 64, 128, 128, 24, 8, {"order": "descending"}),
        ("sm_100", 64, 128, 128, 40, 16, {}),  # instructions with two multiply-adds each
    ],
)
def test_threads_and_architectures(
    arch: str, batch: int, m: int, n: int, k: int, chunk: int, options: dict[str, object]
) -> None:
    a, b, c = (batch, m, k), (batch, k, n), (batch, m, n)
    text = {name: "x".join(map(str, shape)) for name, shape in (("a", a), ("b", b), ("c", c))}
    program = PROGRAM.format(**text, am="i, k", bm="k, j", chunk=chunk)
    random = np.random.default_rng(m + k)
    inputs = [random.standard_normal(shape, np.float32) for shape in (a, b, c)]
    want = CpuBackend(cpu.compile(program)).run([], [x.copy() for x in inputs])[0]
    got = device_kit.run(program, inputs, arch, **options)[0]
    assert np.array_equal(got, np.ascontiguousarray(want).view(np.uint32))
