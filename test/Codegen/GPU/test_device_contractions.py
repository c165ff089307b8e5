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
from support.builder import Builder, order


def product(batch: int, m: int, n: int, k: int, chunk: int, layout: str = "nn") -> tuple[str, list[tuple[int, ...]]]:
    """Returns a batch of matrix products and the shapes of its operands; `layout` has a t for each transposed
    operand."""
    first = ((batch, m, k), "d0, d1, d3") if layout[0] == "n" else ((batch, k, m), "d0, d3, d1")
    second = ((batch, k, n), "d0, d3, d2") if layout[1] == "n" else ((batch, n, k), "d0, d2, d3")
    shapes = [first[0], second[0], (batch, m, n)]
    b = Builder()
    x, y, init = (b.argument(shape, "f32") for shape in shapes)
    inputs, body = [(x, first[1]), (y, second[1])], "%r0 = math.fma %x0, %x1, %a0 : f32"
    return b.program(*b.fold(order(chunk, 1), "pppr", inputs, [(init, "d0, d1, d2")], body)), shapes


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
    program, shapes = product(batch, m, n, k, chunk, layout)
    random = np.random.default_rng(m * n + k)
    inputs = [random.standard_normal(shape, np.float32) for shape in shapes]
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
    program, shapes = product(batch, m, n, k, chunk)
    random = np.random.default_rng(m + k)
    inputs = [random.standard_normal(shape, np.float32) for shape in shapes]
    want = CpuBackend(cpu.compile(program)).run([], [x.copy() for x in inputs])[0]
    got = device_kit.run(program, inputs, arch, **options)[0]
    assert np.array_equal(got, np.ascontiguousarray(want).view(np.uint32))
