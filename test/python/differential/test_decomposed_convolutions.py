# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K2) repro.convolution, decomposed into folds, has the interpreter's bits, whose hashes match recorded ones. The
values are close to those of a plain sum of products."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.base.numerics.formats import element_type, from_bits
from repro_mlir.base.numerics.hashing import tensor_hash
from repro_mlir.compilation import cpu
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.program.canonical import to_bytes
from support import convolutions, kit
from support import inputs as values
from support.convolutions import General, Layer, Window

# The first digits of the hashes (H1) of the result, the input gradient and the weight gradient, which numerics v1
# fixes. The reference interpreter computed the hashes of f64. An earlier version, in which the frontend of PyTorch
# decomposed convolutions, computed the others.
RECORDED = json.loads(Path(__file__).with_name("convolutions.json").read_text())


def run(program: str, arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    executable = CpuBackend(cached_compile(to_bytes(program), cpu.native_level()), 2)
    given = [array.view(kind.dtype) for array, kind in zip(arrays, executable.inputs, strict=True)]
    outputs = [kind.empty() for kind in executable.outputs]
    executable.run([], given, outputs)
    return outputs


def widen(array: np.ndarray, element: str) -> np.ndarray:
    """Converts an array of bit patterns of `element` to float64, or to int64 if `element` is an integer type."""
    if element.startswith("i"):
        return array.astype(np.int64)
    if element in ("f32", "f64"):
        return array.astype(np.float64)
    return from_bits(array, element_type(element)).astype(np.float64)


def recordable(outputs: Sequence[np.ndarray], layer: Layer) -> list[str]:
    return [tensor_hash(output, layer.element)[:16] for output in outputs]


@pytest.mark.parametrize("layer", convolutions.layers(), ids=lambda layer: layer.name)
@pytest.mark.diagonal("layer")
def test_K2_recorded_bits(layer: Layer) -> None:
    assert recordable(run(layer.program(), layer.arrays()), layer) == RECORDED[layer.name]


@pytest.mark.parametrize(
    "layer", [each for each in convolutions.layers() if each.element == "f64"], ids=lambda layer: layer.name
)
def test_K2_recorded_bits_of_f64_are_the_interpreters(layer: Layer) -> None:
    outputs = kit.reference(layer.program(), layer.arrays())
    assert isinstance(outputs, list)
    assert recordable([bits.view(np.float64) for bits in outputs], layer) == RECORDED[layer.name]


def check(case: General, x: np.ndarray, w: np.ndarray, init: np.ndarray, tolerance: float) -> None:
    program = case.program()
    want = kit.reference(program, (x, w, init))
    assert isinstance(want, list)
    kit.check(program, (x, w, init), want=want)
    wide = [widen(array, element) for array, element in zip((x, w, init), case.elements, strict=True)]
    expected = convolutions.literal(*wide, case.by)
    element = case.elements[2]
    if element.startswith("i"):
        np.testing.assert_array_equal(want[0].view(values.dtype(element)), expected.astype(values.dtype(element)))
    else:
        found = from_bits(want[0], element_type(element)).astype(np.float64)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", convolutions.general(48), ids=lambda case: case.name)
@pytest.mark.diagonal(case=convolutions.general(48)[:6])
def test_K2_windows_of_all_kinds(case: General) -> None:
    """Also covers (K3): sums start from an operand with an element for each result, instead of from one bias for each
    channel."""
    x, w, init = (values.random("f32", shape, 5, 2) for shape in case.shapes())
    # If a window contains padding, infinity times padding is NaN; if it contains no element, it has no product at all.
    w[0, 0, ...] = np.inf
    check(case, x, w, init, 1e-4)


@pytest.mark.parametrize(
    "elements",
    [
        ("bf16", "bf16", "bf16"),
        ("bf16", "f16", "f32"),
        ("f8E4M3FN", "f8E5M2", "f16"),
        ("f32", "bf16", "f64"),
        ("i8", "i8", "i8"),
        ("i64", "i64", "i64"),
    ],
    ids="-".join,
)
def test_K1_elements_convert_to_the_accumulator(elements: tuple[str, str, str]) -> None:
    by = Window((1, 2), (2, 1), (1, 1), (2, 1), (1, 2), (True, False), 2)
    case = General("elements", (2, 4, 5, 6), (4, 2, 3, 2), by, elements)
    if elements[2].startswith("i"):
        x, w, init = (values.random(t, shape, 5) for t, shape in zip(elements, case.shapes(), strict=True))
        x, w = x % 7, w % 7
    else:
        x, w, init = (values.random(t, shape, 5, 1) for t, shape in zip(elements, case.shapes(), strict=True))
    check(case, x, w, init, {"bf16": 2e-2, "f16": 2e-3, "f32": 1e-5}.get(elements[2], 1e-12))


PLAIN = ((1,), (0,), (0,), (1,), (1,), (False,))


@pytest.mark.parametrize(
    "x, w, by",
    [
        ((2, 3, 4), (5, 3, 3), Window((1,), (9,), (-2,), (1,), (1,), (False,))),
        ((2, 3, 4), (5, 3, 3), Window((1,), (-4,), (7,), (1,), (1,), (False,))),
        ((2, 3, 4), (5, 3, 3), Window((1,), (-9,), (12,), (3,), (1,), (True,))),
        ((2, 3, 0), (5, 3, 2), Window((1,), (2,), (2,), (1,), (1,), (False,))),
        ((2, 3, 1), (5, 3, 1), Window((2,), (-1,), (9,), (4,), (1,), (False,))),
        ((2, 3, 4), (5, 3, 5), Window(*PLAIN)),
        ((2, 0, 4), (5, 0, 3), Window(*PLAIN)),
        ((0, 3, 4), (5, 3, 3), Window(*PLAIN)),
        ((2, 3, 4), (0, 3, 3), Window(*PLAIN)),
        ((2, 3, 2), (5, 3, 2), Window((1,), (1,), (1,), (2**30,), (2**30 - 1,), (True,))),
        ((2, 3, 4), (5, 3, 2), Window((2**31 - 1,), (2,), (1,), (1,), (1,), (False,))),
    ],
    ids=[
        "padding-before-and-cut-behind",
        "all-of-it-cut-before",
        "padding-alone",
        "no-positions",
        "no-taps",
        "window-too-wide",
        "no-channels",
        "no-batch",
        "no-results",
        "two-taps-far-apart",
        "one-result",
    ],
)
def test_K2_limits(x: tuple[int, ...], w: tuple[int, ...], by: Window) -> None:
    case = General("limits", x, w, by)
    check(case, *(values.random("f32", shape, 5, 2) for shape in case.shapes()), 1e-4)
