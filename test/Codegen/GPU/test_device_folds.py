# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Folds, divided among threads in every way that device code uses, have the bits of compiled CPU code."""

from __future__ import annotations

import numpy as np
import pytest
from repro_mlir.compilation import cpu
from repro_mlir.execute.cpu import CpuBackend
from support import device_kit
from support.builder import ANY, ROW, Builder, order

ADD = "%p = arith.mulf %x0, %x1 : {type}\n    %r0 = arith.addf %a0, %p : {type}"
FMA = "%r0 = math.fma %x0, %x1, %a0 : {type}"
MAX = "%p = arith.mulf %x0, %x1 : {type}\n    %r0 = arith.maximumf %a0, %p : {type}"
NUMPY = {"f32": np.float32, "f64": np.float64}


def fold(shape: tuple[int, ...], reduced: set[int], ordering: str, body: str, kind: str) -> str:
    """Returns a fold of two tensors of the shape `shape` over the dimensions `reduced`."""
    kept = [i for i in range(len(shape)) if i not in reduced]
    dims, results = (", ".join(f"d{i}" for i in chosen) for chosen in (range(len(shape)), kept))
    b = Builder()
    x, y, init = (b.argument(extents, kind) for extents in (shape, shape, [shape[i] for i in kept]))
    iterators = "".join("r" if i in reduced else "p" for i in range(len(shape)))
    inputs = [(x, dims), (y, dims)]
    return b.program(*b.fold(ordering, iterators, inputs, [(init, results)], body.format(type=kind)))


@pytest.mark.parametrize(
    ("shape", "reduced", "ordering", "body", "kind"),
    [
        # Folds of rows: the threads of one warp share a row.
        ((5, 300), {1}, order(8192, 64, 1, "refold"), ADD, "f32"),
        ((3, 1, 1500), {2}, order(256, 64, 1, "refold"), ADD, "f32"),  # two passes
        ((2, 1500), {1}, order(16, 64, 1, "refold"), ADD, "f64"),  # three passes, chunks with fewer elements than lanes
        ((3, 700), {1}, order(100, 8, 1, "sequential"), ADD, "f32"),  # a warp computes four results
        ((2, 900), {1}, order(600, 256, 1, "sequential"), ADD, "f32"),  # a thread computes eight lanes
        ((7, 5), {1}, order(8192, 64, 1, "refold"), FMA, "f32"),  # lanes without elements
        ((4, 9), {1}, order(4, 64, 1, "refold"), FMA, "f32"),
        ((3, 20, 6), {1, 2}, order(8192, 64, 1, "refold"), FMA, "f32"),  # a run is shorter than the lanes
        ((2, 20, 70), {1, 2}, order(300, 64, 1, "refold"), ADD, "f32"),  # a run is longer than the lanes
        ((2, 6, 128), {1, 2}, order(256, 64, 1, "refold"), ADD, "f32"),  # a run is a multiple of the lanes
        ((3, 1, 40), {1, 2}, order(64, 16, 0, "refold"), ADD, "f32"),
        ((40, 7, 1), {0, 2}, order(8192, 64, 1, "refold"), FMA, "f32"),  # runs of one element
        ((3, 200), {1}, ANY, MAX, "f32"),
        ((2, 9000), {1}, ANY, MAX, "f64"),
        # Folds of columns: one thread per chunk.
        ((40, 130), {0}, order(512, 1, 0, "sequential"), ADD, "f32"),
        ((45, 33), {0}, order(8, 1, 0, "sequential"), FMA, "f32"),
        ((3, 45, 10), {0, 1}, order(16, 1, 0, "refold"), ADD, "f32"),
        ((600, 600), {0}, ANY, MAX, "f32"),
        ((11, 65600), {0}, order(4, 1, 0, "sequential"), FMA, "f32"),  # one thread for all chunks
    ],
)
def test_folds(shape: tuple[int, ...], reduced: set[int], ordering: str, body: str, kind: str) -> None:
    kept = [i for i in range(len(shape)) if i not in reduced]
    program = fold(shape, reduced, ordering, body, kind)
    random = np.random.default_rng(sum(shape))
    inputs = [random.standard_normal(size).astype(NUMPY[kind]) for size in (shape, shape, [shape[i] for i in kept])]
    inputs[0].reshape(-1)[::5] *= NUMPY[kind](1e-30)
    inputs[1].reshape(-1)[::5] *= NUMPY[kind](-1e-30)
    inputs[2].reshape(-1)[::2] = -0.0
    want = CpuBackend(cpu.compile(program)).run([], [x.copy() for x in inputs])[0]
    want = np.ascontiguousarray(want).view(f"u{want.itemsize}")
    assert np.array_equal(device_kit.run(program, inputs, "sm_75", checked=True)[0], want)
    assert np.array_equal(device_kit.run(program, inputs, "sm_90", order="descending")[0], want)


@pytest.mark.parametrize("zeros", [5, 6, 64])
def test_a_sum_of_negative_zeros(zeros: int) -> None:
    """(F2) A sum of -0 becomes +0 only if a lane has no elements and the fold uses fma."""
    program = fold((2, zeros), {1}, ROW.format(run=1), FMA, "f32")
    tiny = np.full((2, zeros), 1e-30, np.float32)
    device_kit.check(program, [tiny, -tiny, np.full(2, -0.0, np.float32)], "sm_75")
