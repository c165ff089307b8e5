# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M4) Compares compiled programs on every target with the recorded results of tensor cores. The recordings are not
part of the repository; `make check-tensor-cores VECTORS=DIR` runs this comparison."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from recorded import PROPERTY, Comparison, files, without_nan_bits
from repro_mlir import Accumulator
from repro_mlir.base.numerics.formats import element_type, from_bits
from repro_mlir.compilation import cpu
from repro_mlir.execute import qemu
from repro_mlir.reference.low_precision.accumulators import Accumulator as Unit
from repro_mlir.reference.low_precision.accumulators import Fdpa, LateFdpa
from support import accumulated, device_kit, kit
from support.matrix_instructions import INSTRUCTIONS, NAMES, multiply
from test_recorded_tensor_cores import (
    DEVICES,
    RESULTS,
    WITHOUT_C,
    Recorded,
    operation,
    recorded,
    tells_fraction,
    with_fraction,
)

COPIES = 5
"""The number of columns per case, which differs from the vector size."""


def accumulator(by: Unit) -> Accumulator:
    """Converts an accumulator of the reference interpreter to one of programs, whose sums start from the initial
    operand."""
    inner = by.inner if isinstance(by, LateFdpa) else by
    assert isinstance(inner, Fdpa)
    late = isinstance(by, LateFdpa)
    return Accumulator(inner.terms, inner.fraction, inner.round, inner.floor, late, start="init")


def program(by: Unit, data: Recorded, result: str, copies: int) -> tuple[str, tuple[np.ndarray, ...]]:
    """Returns a contraction that computes all recorded cases as a batch, `copies` times each, and its operands."""
    element = {"tf32": "f32"}.get(data.of.name, data.of.name)
    count, terms = data.a.shape
    sizes = {"b": count, "k": terms, "n": copies}
    product = accumulated.Product(accumulator(by), sizes, (element, element, RESULTS[result].name), ("bk", "bkn", "bn"))
    c = data.addend(result)
    y = np.repeat(data.b[:, :, np.newaxis], copies, axis=2)
    operands = (data.a, y, np.repeat(c[:, np.newaxis], copies, axis=1))
    return product.program(), tuple(accumulated.as_bits(x, t) for x, t in zip(operands, product.types, strict=True))


def as_f32_bits(outcome: kit.Outcome, result: str) -> np.ndarray:
    """Returns the results of a program as the bits of f32 values; NaNs become canonical."""
    assert isinstance(outcome, list)
    values = from_bits(outcome[0], element_type(RESULTS[result].name)).astype(np.float32)
    return without_nan_bits(values.view(np.uint32))


@pytest.mark.parametrize("file", files("REPRO_TENSOR_CORES", "check-tensor-cores"))
@pytest.mark.diagonal("file")
def test_compiled_M4(file: Path, record_property: Callable[[str, object], None]) -> None:
    found = Comparison(file.name)
    data = recorded(file)
    levels = cpu.runnable_levels()
    if qemu.is_available():
        levels += [level for level in cpu.levels() if level.startswith("aarch64") and level not in levels]
    for result, bits in data.results.items():
        _, by = operation(data.device, data.of, result)
        want = np.repeat(without_nan_bits(bits)[:, np.newaxis], COPIES, axis=1)
        text, operands = program(by, data, result, COPIES)
        for level in levels:
            got = as_f32_bits(kit.compiled(text, operands, kit.Configuration(level, 2), runs=1), result)
            found.arrays(f"{result} {level}", got, want)
        text, operands = program(by, data, result, copies=1)
        found.arrays(f"{result} ptx", as_f32_bits(device_kit.run(text, operands, "sm_80"), result), want[:, :1])
        for more in (-1, 1):
            text, operands = program(with_fraction(by, more), data, result, COPIES)
            got = as_f32_bits(kit.compiled(text, operands, kit.configurations()[-1], runs=1), result)
            found.notes.append(f"{result} {int((got != want).sum()) // COPIES} with {more:+} bit")
            assert not tells_fraction(by, data.of, result) or (got != want).any()
    record_property(PROPERTY, found.line())
    assert found.compared and not found.differing, found.differing


SIDE = 8
"""The number of cases per instruction: the results are on the diagonal of its upper half."""

PTX = {f8: name for name, f8 in NAMES.items()}


@pytest.mark.parametrize("file", files("REPRO_TENSOR_CORES", "check-tensor-cores"))
def test_instructions_M3(file: Path, record_property: Callable[[str, object], None]) -> None:
    """Compares mma.sync on the emulator with the recordings. The emulator uses the accumulator class of the recorded
    device."""
    data = recorded(file)
    count, terms = data.a.shape
    tiles = -(-count // SIDE)
    lines = np.arange(SIDE)
    found = Comparison(file.name)
    for result, want in data.results.items():
        # Skips f8 with f32 results on Hopper: these were recorded from wgmma, not from mma.sync.
        if data.of.name in PTX and (DEVICES[data.device], result) in WITHOUT_C:
            continue
        name, kind = PTX.get(data.of.name, data.of.name), RESULTS[result].name
        fitting = [of for of in INSTRUCTIONS if of.elements == (name, name) and of.result == kind and of.depth >= terms]
        of = min(fitting, key=lambda each: each.depth)

        def padded(x: np.ndarray, width: int, element: str) -> np.ndarray:
            """Returns the bits of the cases, arranged in tiles of `SIDE` cases and padded with zeros."""
            wide = np.zeros((tiles * SIDE, width), np.float32)
            wide[:count, : x.shape[1]] = x
            bits = accumulated.as_bits(wide, element)
            return bits.view(f"u{bits.itemsize}").reshape(tiles, SIDE, width)

        element = "f32" if name == "tf32" else data.of.name
        a, b = (padded(x, of.depth, element) for x in (data.a, data.b))
        addends = padded(data.addend(result)[:, np.newaxis], 1, kind)
        c = np.zeros((tiles, 16, 8), addends.dtype)
        c[:, lines, lines] = addends[:, :, 0]
        left = np.concatenate([a, np.zeros_like(a)], axis=1)
        got = multiply(of, left, np.swapaxes(b, 1, 2), c, "sm_80", matrix_unit=DEVICES[data.device])
        bits = got[:, lines, lines].reshape(-1)[:count].astype(c.dtype)
        values = from_bits(bits, element_type(kind)).astype(np.float32)
        found.arrays(of.opcode, without_nan_bits(values.view(np.uint32)), without_nan_bits(want))
    if not found.compared:
        pytest.skip(f"{file.name}: nothing of mma.sync")
    record_property(PROPERTY, found.line())
    assert not found.differing, found.differing
