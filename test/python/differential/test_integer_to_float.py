# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(S3) An integer or f64 is rounded once to a narrower float, on every target.

The expected bits are computed exactly, with Python's integers. Each value is halfway between two floats or next to
such a value, so that an intermediate rounding to f32 or f64 would lose the bits that decide.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from repro_mlir.execute import qemu
from support import device_kit, inputs, kit
from support.builder import Builder

# For each format: the number of fraction bits, the least exponent of a normal number, the bits of the largest number,
# and the bits of the canonical NaN.
FORMATS = {
    "bf16": (7, -126, 0x7F7F, 0x7FC0),
    "f16": (10, -14, 0x7BFF, 0x7E00),
    "f8E4M3FN": (3, -6, 0x7E, 0x7F),
    "f8E5M2": (2, -14, 0x7B, 0x7E),
    "f32": (23, -126, 0x7F7FFFFF, 0x7FC00000),
    "f64": (52, -1022, 0x7FEFFFFFFFFFFFFF, 0x7FF8000000000000),
}
WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
SIZES = {"bf16": 2, "f16": 2, "f8E4M3FN": 1, "f8E5M2": 1, "f32": 4, "f64": 8}


def rounded(value: Fraction, element: str) -> int:
    """Returns the bits of the float nearest to `value`; if two floats are equally near, those of the float with an even
    significand."""
    fraction_bits, least, largest, nan = FORMATS[element]
    sign = int(value < 0) << (8 * SIZES[element] - 1)
    magnitude = abs(value)
    exponent = least
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quotient = magnitude / Fraction(2) ** (exponent - fraction_bits)
    whole, rest = divmod(quotient, 1)
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)
    # The bits of consecutive floats are consecutive integers, even where the exponent changes, so a carry needs no
    # special case.
    bits = int(whole) + ((exponent - least) << fraction_bits)
    if bits > largest:
        return nan if element == "f8E4M3FN" else sign | (largest + 1)
    return sign | bits


def near_ties(element: str, top: int) -> list[int]:
    """Returns integers below 2^top that lie halfway between two floats of a format, or next to such a value. The
    significands of the floats include even ones, odd ones, and those whose bits are all ones."""
    precision = FORMATS[element][0] + 1
    found = {0, 1, 2, 3, 2**top - 1}
    for exponent in range(precision, top):
        unit = 1 << (exponent - precision + 1)
        for significand in (1 << (precision - 1), (1 << (precision - 1)) + 1, (1 << precision) - 1):
            tie = significand * unit + unit // 2
            found |= {tie + offset for offset in (-1, 0, 1)} | {significand * unit}
            if unit > 8:
                found |= {tie + unit // 4, tie - unit // 8}
    return sorted(n for n in found if n < 2**top)


def integers(source: str, element: str) -> np.ndarray:
    width = WIDTHS[source]
    magnitudes = near_ties(element, width)
    wrapped = {n % 2**width for n in magnitudes} | {-n % 2**width for n in magnitudes}
    values = np.array(sorted(wrapped), np.uint64)
    if source == "i1":
        return values == 1
    return values.astype(f"u{width // 8}").view(inputs.dtype(source))


def exact(value: int, source: str, signed: bool) -> Fraction:
    width = WIDTHS[source]
    value %= 2**width
    return Fraction(value - 2**width if signed and value >> (width - 1) else value)


def both_kinds(text: str, values: list[np.ndarray], want: list[np.ndarray]) -> None:
    """Checks that the reference interpreter and each CPU configuration return the bits `want`."""
    kit.compare(kit.read(text), want, kit.reference(text, values), "reference")
    for configuration in kit.configurations():
        kit.compare(kit.read(text), want, kit.compiled(text, values, configuration, 1), str(configuration))


def on_other_machines(text: str, values: list[np.ndarray], want: list[np.ndarray]) -> None:
    for arch in ("sm_75", "sm_90"):
        device_kit.check(text, values, arch, want)
    if qemu.is_available():
        kit.check(text, values, [kit.Configuration("aarch64", 1)], runs=1, want=want)


def integer_program(source: str) -> tuple[str, list[np.ndarray], list[np.ndarray]]:
    """Returns a program with the signed and the unsigned conversion to every float type, its inputs and the expected
    results. For i64, it also converts the values after a cast to index and back."""
    b = Builder()
    values, want, results = [], [], []
    for element in FORMATS:
        array = integers(source, element)
        x = b.argument(array.shape, source)
        values.append(array)
        for op in ("sitofp", "uitofp"):
            expected = [rounded(exact(int(n), source, op == "sitofp"), element) for n in array]
            want.append(np.array(expected, f"u{SIZES[element]}"))
            results.append(b.elementwise(f"%r0 = arith.{op} %x0 : {source} to {element}", x, element=element))
            if source == "i64":
                there_and_back = "%i = arith.index_cast %x0 : i64 to index\n%j = arith.index_cast %i : index to i64\n"
                results.append(
                    b.elementwise(f"{there_and_back}%r0 = arith.{op} %j : i64 to {element}", x, element=element)
                )
                want.append(want[-1])
    return b.program(*results), values, want


@pytest.mark.parametrize("source", WIDTHS)
def test_S3_integers(source: str) -> None:
    both_kinds(*integer_program(source))


@pytest.mark.parametrize("source", ["i32", "i64"])
@pytest.mark.exhaustive("i64")
def test_S3_integers_on_other_machines(source: str) -> None:
    on_other_machines(*integer_program(source))


def double_program() -> tuple[str, list[np.ndarray], list[np.ndarray]]:
    """Returns conversions of f64 to every narrower type, around ties of normal and subnormal numbers of both signs."""
    b = Builder()
    values, want, results = [], [], []
    for element, (fraction_bits, least, largest, _) in FORMATS.items():
        if element == "f64":
            continue
        patterns = {0, 1, 2, 3, 2**fraction_bits - 1, 2**fraction_bits, 2**fraction_bits + 1, largest - 1, largest}
        middle = (-least) << fraction_bits
        patterns |= {middle, middle + 1, middle + 2**fraction_bits - 1}
        chosen = []
        for bits in sorted(patterns):
            exponent = max(bits >> fraction_bits, 1) + least - 1
            significand = bits & (2**fraction_bits - 1) | (bits >> fraction_bits != 0) << fraction_bits
            tie = math.ldexp(2 * significand + 1, exponent - fraction_bits - 1)
            chosen += [tie, math.nextafter(tie, 0), math.nextafter(tie, math.inf), tie * (1 + 2.0**-40)]
        chosen += [1e300, 5e-324]
        array = np.array(chosen + [-x for x in chosen])
        x = b.argument(array.shape, "f64")
        values.append(array)
        results.append(b.elementwise(f"%r0 = arith.truncf %x0 : f64 to {element}", x, element=element))
        expected = [
            rounded(Fraction(x), element) if x else int(math.copysign(1, x) < 0) << (8 * SIZES[element] - 1)
            for x in array.tolist()
        ]
        # A number that rounds to zero keeps its sign.
        want.append(np.array(expected, f"u{SIZES[element]}"))
    return b.program(*results), values, want


def test_S3_doubles() -> None:
    both_kinds(*double_program())


def test_S3_doubles_on_other_machines() -> None:
    on_other_machines(*double_program())


def two_roundings() -> tuple[str, list[np.ndarray], list[np.ndarray]]:
    b = Builder()
    array = integers("i64", "bf16")
    x = b.argument(array.shape, "i64")
    results, want = [], []
    for op in ("sitofp", "uitofp"):
        first = b.elementwise(f"%r0 = arith.{op} %x0 : i64 to f32", x, element="f32")
        results.append(b.elementwise("%r0 = arith.truncf %x0 : f32 to bf16", first, element="bf16"))
        body = f"%f = arith.{op} %x0 : i64 to f32\n%r0 = arith.truncf %f : f32 to bf16"
        results.append(b.elementwise(body, x, element="bf16"))
        expected = []
        for n in array.tolist():
            bits = rounded(exact(n, "i64", op == "sitofp"), "f32")
            single = np.array([bits], np.uint32).view(np.float32)[0]
            expected.append(rounded(Fraction(float(single)), "bf16"))
        want += [np.array(expected, np.uint16)] * 2
    return b.program(*results), [array], want


def test_V3_two_roundings_stay_two() -> None:
    """(V3) A program that rounds to f32 and then to bf16 rounds twice, even if fusion puts both roundings into one loop
    body."""
    program, values, want = two_roundings()
    once = [rounded(exact(n, "i64", True), "bf16") for n in values[0].tolist()]
    assert (np.array(once) != want[0]).any()
    both_kinds(program, values, want)
    on_other_machines(program, values, want)


def test_S3_in_a_body_that_goes_on() -> None:
    """The rounded value is used in the same loop body, in which compiled code represents bf16 values as f32."""
    b = Builder()
    array = integers("i64", "bf16")
    x = b.argument(array.shape, "i64")
    body = "%n = arith.sitofp %x0 : i64 to bf16\n%w = arith.extf %n : bf16 to f32\n%r0 = arith.negf %w : f32"
    text = b.program(b.elementwise(body, x, element="f32"))
    want = [(rounded(-exact(n, "i64", True), "bf16") if n else 0x8000) << 16 for n in array.tolist()]
    both_kinds(text, [array], [np.array(want, np.uint32)])
