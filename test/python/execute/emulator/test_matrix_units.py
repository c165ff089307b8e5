# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M3) mma.sync on floats returns the bits of the reference interpreter's accumulators, for the accumulator class of
the target and for other classes."""

from __future__ import annotations

import dataclasses
import itertools
import re

import numpy as np
import pytest
from repro_mlir.base.numerics.formats import element_type, from_bits
from repro_mlir.execute import emulator
from repro_mlir.reference.low_precision.accumulators import ACCUMULATORS, Accumulator, Fdpa, LateFdpa, accumulate
from repro_mlir.reference.low_precision.binary_formats import BF16, F8E4M3FN, F8E5M2, F16, TF32
from support import accumulated
from support.matrix_instructions import CLASSES, EIGHTS, INSTRUCTIONS, NAMES, Instruction, multiply

FORMATS = {"f16": F16, "bf16": BF16, "tf32": TF32, "e4m3": F8E4M3FN, "e5m2": F8E5M2}
COUNT = 12
NANS = {"f32": (0x7FFFFFFF, 0x7F800000), "f16": (0x7FFF, 0x7C00)}
"""The bits of the canonical NaN of devices, and those of infinity."""


def rule(unit: str, of: Instruction) -> Accumulator | None:
    name = EIGHTS.get(unit) if of.element in NAMES else unit
    return ACCUMULATORS[name].get((NAMES.get(of.element, of.element), of.result)) if name else None


def changed(by: Accumulator, more: int) -> Accumulator:
    """Returns an accumulator with `more` additional fraction bits."""
    if isinstance(by, LateFdpa):
        return dataclasses.replace(by, inner=changed(by.inner, more))
    assert isinstance(by, Fdpa) and by.fraction is not None
    return dataclasses.replace(by, fraction=by.fraction + more)


def type_of(element: str) -> str:
    """Returns the element type of programs for an operand type of mma.sync; for tf32 it is f32."""
    return {"tf32": "f32"}.get(element) or NAMES.get(element, element)


def operands(of: Instruction, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the bits of operands a, b and c of an instruction. Elements of tf32 are f32 values whose unused bits are
    zero."""
    rng = np.random.default_rng(seed)
    make = accumulated.OPERANDS[kind]
    shapes = (COUNT, 16, of.depth), (COUNT, of.depth, 8)
    a, b = (make(rng, shape, type_of(element)) for shape, element in zip(shapes, of.elements, strict=True))
    c = make(rng, (COUNT, 16, 8), of.result)
    a, b, c = (x.view(np.uint32) if x.dtype == np.float32 else x for x in (a, b, c))
    return (a & 0xFFFFE000, b & 0xFFFFE000, c) if of.element == "tf32" else (a, b, c)


def values(bits: np.ndarray, element: str) -> np.ndarray:
    return from_bits(bits, element_type(type_of(element))).astype(np.float32)


def expected(of: Instruction, a: np.ndarray, b: np.ndarray, c: np.ndarray, by: Accumulator) -> np.ndarray:
    x = values(a, of.elements[0])[:, :, np.newaxis, :]
    y = np.swapaxes(values(b, of.elements[1]), 1, 2)[:, np.newaxis]
    # Instructions that add c late convert f8 to f16.
    formats = (F16, F16) if isinstance(by, LateFdpa) else (FORMATS[of.elements[0]], FORMATS[of.elements[1]])
    got = accumulate(x, y, values(c, of.result), by, formats)
    bits = accumulated.as_bits(got, of.result)
    bits = bits.view(f"u{bits.itemsize}").astype(np.uint32)
    nan, infinity = NANS[of.result]
    return np.where((bits & nan) > infinity, np.uint32(nan), bits)


@pytest.mark.parametrize("kind", accumulated.OPERANDS)
@pytest.mark.parametrize(("unit", "of"), [*itertools.product(dict.fromkeys(CLASSES.values()), INSTRUCTIONS)], ids=str)
@pytest.mark.diagonal
def test_products_M1(unit: str, of: Instruction, kind: str) -> None:
    by = rule(unit, of)
    a, b, c = operands(of, kind, 1)
    if by is None:
        with pytest.raises(emulator.LaunchError, match="expected a matrix unit that multiplies"):
            multiply(of, a, b, c, "sm_80", matrix_unit=unit)
        return
    got = multiply(of, a, b, c, "sm_80", matrix_unit=unit)
    assert np.array_equal(got, expected(of, a, b, c, by))


@pytest.mark.parametrize("target", CLASSES)
def test_class_of_the_target_M3(target: str) -> None:
    """By default, the emulator of an architecture has that architecture's accumulator class. Classes with another rule
    return other bits."""
    of = Instruction("f16", 16)
    a, b, c = operands(of, "normal", 2)
    results = {}
    for unit in dict.fromkeys(CLASSES.values()):
        by = rule(unit, of)
        assert by is not None
        results[unit] = expected(of, a, b, c, by)
    want = results[CLASSES[target]]
    assert np.array_equal(multiply(of, a, b, c, target), want)
    assert np.array_equal(multiply(of, a, b, c, "sm_90", matrix_unit=target), want)
    for unit, other in results.items():
        same = rule(unit, of) == rule(CLASSES[target], of)
        assert np.array_equal(other, want) == same


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("of", INSTRUCTIONS, ids=str)
@pytest.mark.parametrize("unit", ["ada", "hopper"])
@pytest.mark.diagonal
def test_fraction_bits_are_distinguished_M1(unit: str, of: Instruction, more: int) -> None:
    by = rule(unit, of)
    assert by is not None
    a, b, c = operands(of, "normal" if of.element in ("bf16", "tf32") else "wide", 3)
    if of.result == "f16":
        c &= 0x8000  # a large c in f16 would hide the last bits of the sum
    got = multiply(of, a, b, c, "sm_90", matrix_unit=unit)
    assert np.array_equal(got, expected(of, a, b, c, by))
    # Results in f16 have few bits. With random operands, a changed number of fraction bits is visible only in results
    # of f8 on Ada, which keeps 13 fraction bits.
    is_hidden = of.result == "f16" and not (unit == "ada" and of.element in NAMES)
    assert is_hidden or not np.array_equal(got, expected(of, a, b, c, changed(by, more)))


def test_blocks_in_ascending_order_M1() -> None:
    """On Ampere, the sum of one block of 8 is truncated when the next block is added; on Hopper, a single block has all
    16 products."""
    of = Instruction("bf16", 16)
    a = np.zeros((1, 16, 16), np.uint16)
    b = np.full((1, 16, 8), 0x3F80, np.uint16)
    c = np.zeros((1, 16, 8), np.uint32)
    a[0, :, 0], a[0, :, 8], a[0, :, 9] = 0x3F80, 0x4F80, 0xCF80  # 1, 2^32, -2^32
    assert np.all(multiply(of, a, b, c, "sm_80").view(np.float32) == 0)
    swapped = np.roll(a, 8, axis=2)
    assert np.all(multiply(of, swapped, b, c, "sm_80").view(np.float32) == 1)
    assert np.all(multiply(of, swapped, b, c, "sm_90").view(np.float32) == 0)


def test_halves_of_f8_M3() -> None:
    """Ada adds two blocks of 16 products in ascending order of k. Hopper's first block has the products with k mod 4 <
    2, and c is added last."""
    of = Instruction("e5m2", 32)
    a = np.zeros((1, 16, 32), np.uint8)
    b = np.full((1, 32, 8), 0x3C, np.uint8)
    c = np.full((1, 16, 8), 0x3F800000, np.uint32)  # 1
    a[0, :, 1], a[0, :, 17] = 0x78, 0xF8  # 2^15, -2^15
    assert np.all(multiply(of, a, b, c, "sm_89").view(np.float32) == 0)
    assert np.all(multiply(of, a, b, c, "sm_90").view(np.float32) == 1)
    a[0, :, 16] = 0x04  # 2^-14, which is truncated in a block with 2^15
    assert np.all(multiply(of, a, b, c, "sm_90").view(np.float32) == 1)
    a[0, :, 16], a[0, :, 18] = 0, 0x04
    assert np.all(multiply(of, a, b, c, "sm_90").view(np.float32) == 1 + 2.0**-14)


@pytest.mark.parametrize(
    ("products", "c", "want"),
    [
        (
            {7: (0x11, 0x87), 23: (0xF1, 0x0B), 26: (0xCF, 0x43), 28: (0x99, 0x86), 29: (0x04, 0xF7)},
            0xBF800000,
            0xC37B47DF,
        ),
        ({14: (0xB4, 0xC0), 21: (0x30, 0xC6), 24: (0x2A, 0x81), 31: (0x06, 0x76)}, 0x2399617A, 0x438F3FFF),
        ({0: (0x1E, 0x03), 2: (0x85, 0x6E)}, 0x009F4039, 0xC26FFFFE),
    ],
)
def test_subnormals_of_e4m3_next_to_e5m2_M3(products: dict[int, tuple[int, int]], c: int, want: int) -> None:
    """Compares with results of an H100, which aligns a subnormal of e4m3 as an f16. This differs from the rule for two
    f8 types (M4)."""
    of = Instruction("e4m3", 32, "e5m2")
    a, b = np.zeros((1, 16, 32), np.uint8), np.zeros((1, 32, 8), np.uint8)
    for k, (x, y) in products.items():
        a[0, :, k], b[0, k] = x, y
    addend = np.full((1, 16, 8), c, np.uint32)
    assert np.all(multiply(of, a, b, addend, "sm_90") == want)
    by = rule("hopper", of)
    assert by is not None
    x, y = values(a, "e4m3")[0, 0], values(b, "e5m2")[0, :, 0]
    assert accumulate(x, y, addend.view(np.float32)[0, 0, 0], by, (F8E4M3FN, F8E5M2)).view(np.uint32) != want


@pytest.mark.parametrize("kind", accumulated.OPERANDS)
@pytest.mark.parametrize(
    "of", [of for of in INSTRUCTIONS if of.element in NAMES and len(set(of.elements)) == 1], ids=str
)
@pytest.mark.diagonal
def test_one_type_of_f8_as_f16_M4(of: Instruction, kind: str) -> None:
    """If both operands have the same f8 type, converting them to f16 changes no result: the sums have enough bits."""
    by = rule("hopper", of)
    assert by is not None
    a, b, c = operands(of, kind, 8)
    x, y = values(a, of.element)[:, :, np.newaxis], np.swapaxes(values(b, of.element), 1, 2)[:, np.newaxis]
    own, as_f16 = (accumulate(x, y, values(c, of.result), by, form) for form in (FORMATS[of.element], F16))
    assert np.array_equal(own, as_f16, equal_nan=True) and np.array_equal(np.signbit(own), np.signbit(as_f16))


@pytest.mark.parametrize(("target", "least"), [("sm_80", 0x1800), ("sm_90", 0x1400)])
def test_fraction_of_sums_in_f16_M1(target: str, least: int) -> None:
    """In a sum with 2^15 and -2^15, the smallest summand that is not truncated to zero is 2^-9 or 2^-10."""
    of = Instruction("f16", 8, result="f16")
    a = np.zeros((1, 16, 8), np.uint16)
    b = np.full((1, 8, 8), 0x3C00, np.uint16)
    a[0, :, 0], a[0, :, 1] = 0x7800, 0xF800
    for code, want in ((least, least), (least - 1, 0)):
        a[0, :, 2] = code
        assert np.all(multiply(of, a, b, np.zeros((1, 16, 8), np.uint16), target) == want)


def test_sm_120_has_f8_of_its_own() -> None:
    of = Instruction("e4m3", 32)
    with pytest.raises(emulator.LaunchError, match="expected a matrix unit that multiplies e4m3, got 'sm_120'"):
        multiply(of, *operands(of, "normal", 7), "sm_120")


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
