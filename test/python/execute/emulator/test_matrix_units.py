# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M3) mma.sync on floats gives the bits of the reference's accumulators, in the class of the target or another one."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from repro_mlir.execute import emulator
from repro_mlir.numerics.formats import element_type, from_bits
from repro_mlir.reference.low_precision.accumulators import ACCUMULATORS, Fdpa, accumulate
from repro_mlir.reference.low_precision.binary_formats import BF16, F16, TF32
from support import accumulated
from support.matrix_instructions import CLASSES, INSTRUCTIONS, Instruction, multiply

FORMATS = {"f16": F16, "bf16": BF16, "tf32": TF32}
COUNT = 12
NAN = 0x7FFFFFFF


def rule(unit: str, element: str) -> Fdpa | None:
    found = ACCUMULATORS[unit].get((element, "f32"))
    assert found is None or isinstance(found, Fdpa)
    return found


def operands(of: Instruction, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bits of a, b and c; of tf32 those of f32 without the bits that it lacks."""
    rng = np.random.default_rng(seed)
    element = "f32" if of.element == "tf32" else of.element
    make = accumulated.OPERANDS[kind]
    a, b = (make(rng, (COUNT, *shape), element) for shape in ((16, of.depth), (of.depth, 8)))
    c = make(rng, (COUNT, 16, 8), "f32")
    a, b, c = (x.view(np.uint32) if x.dtype == np.float32 else x for x in (a, b, c))
    return (a & 0xFFFFE000, b & 0xFFFFE000, c) if of.element == "tf32" else (a, b, c)


def values(bits: np.ndarray, element: str) -> np.ndarray:
    return from_bits(bits, element_type("f32" if element == "tf32" else element)).astype(np.float32)


def expected(of: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, by: Fdpa) -> np.ndarray:
    x = values(a, of.element)[:, :, np.newaxis, :]
    y = np.swapaxes(values(b, of.element), 1, 2)[:, np.newaxis]
    bits = accumulate(x, y, c.view(np.float32), by, FORMATS[of.element]).view(np.uint32)
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, np.uint32(NAN), bits)


@pytest.mark.parametrize("kind", accumulated.OPERANDS)
@pytest.mark.parametrize("of", INSTRUCTIONS, ids=lambda of: f"{of.element}-k{of.depth}")
@pytest.mark.parametrize("unit", dict.fromkeys(CLASSES.values()))
def test_products_M1(unit: str, of: Instruction, kind: str) -> None:
    by = rule(unit, of.element)
    a, b, c = operands(of, kind, 1)
    if by is None:
        with pytest.raises(emulator.LaunchError, match=f"expected a matrix unit that multiplies {of.element}"):
            multiply(of, a, b, c, "sm_80", matrix_unit=unit)
        return
    got = multiply(of, a, b, c, "sm_80", matrix_unit=unit)
    assert np.array_equal(got, expected(of, a, b, c, by))


@pytest.mark.parametrize("target", CLASSES)
def test_class_of_the_target_M3(target: str) -> None:
    """By default; an architecture stands for its class. Another class gives other bits, unless it has the same rule."""
    of = Instruction("f16", 16)
    a, b, c = operands(of, "normal", 2)
    results = {}
    for unit in dict.fromkeys(CLASSES.values()):
        by = rule(unit, "f16")
        assert by is not None
        results[unit] = expected(of, a, b, c, by)
    want = results[CLASSES[target]]
    assert np.array_equal(multiply(of, a, b, c, target), want)
    assert np.array_equal(multiply(of, a, b, c, "sm_90", matrix_unit=target), want)
    for unit, other in results.items():
        same = rule(unit, "f16") == rule(CLASSES[target], "f16")
        assert np.array_equal(other, want) == same


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("of", INSTRUCTIONS, ids=lambda of: f"{of.element}-k{of.depth}")
def test_fraction_is_told_apart_M1(of: Instruction, more: int) -> None:
    by = rule("hopper", of.element)
    assert by is not None and by.fraction is not None
    a, b, c = operands(of, "wide" if of.element == "f16" else "normal", 3)
    other = dataclasses.replace(by, fraction=by.fraction + more)
    assert not np.array_equal(multiply(of, a, b, c, "sm_90"), expected(of, a, b, c, other))


def test_blocks_in_ascending_order_M1() -> None:
    """What a block gives is cut by the next one, not by that before; hopper has one block."""
    of = Instruction("bf16", 16)
    a = np.zeros((1, 16, 16), np.uint16)
    b = np.full((1, 16, 8), 0x3F80, np.uint16)
    c = np.zeros((1, 16, 8), np.uint32)
    a[0, :, 0], a[0, :, 8], a[0, :, 9] = 0x3F80, 0x4F80, 0xCF80  # 1, 2^32, -2^32
    assert np.all(multiply(of, a, b, c, "sm_80").view(np.float32) == 0)
    swapped = np.roll(a, 8, axis=2)
    assert np.all(multiply(of, swapped, b, c, "sm_80").view(np.float32) == 1)
    assert np.all(multiply(of, swapped, b, c, "sm_90").view(np.float32) == 0)


def test_bits_that_tf32_lacks_are_not_read() -> None:
    of = Instruction("tf32", 8)
    a, b, c = operands(of, "normal", 4)
    assert np.array_equal(multiply(of, a | 0x1FFF, b | 0x1555, c, "sm_90"), multiply(of, a, b, c, "sm_90"))


@pytest.mark.parametrize("order", ["ascending", "descending", 5])
def test_orders_of_threads(order: str | int) -> None:
    of = Instruction("bf16", 16)
    a, b, c = operands(of, "normal", 5)
    assert np.array_equal(multiply(of, a, b, c, "sm_80", order=order), multiply(of, a, b, c, "sm_80", threads=2))


def test_unknown_class() -> None:
    of = Instruction("f16", 8)
    a, b, c = operands(of, "normal", 6)
    with pytest.raises(emulator.LaunchError, match=re.escape("multiplies f16, got 'pascal'")):
        multiply(of, a, b, c, "sm_80", matrix_unit="pascal")
