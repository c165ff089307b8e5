# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operands of `quantize` and `dequantize`: blocks at which scales and codes change."""

from __future__ import annotations

import numpy as np

from repro_mlir.conformance.group import Cases
from repro_mlir.conformance.words import NOT_NUMBERS, Words, as_f32, moved
from repro_mlir.reference.low_precision.binary_formats import Format, decode

OPEN = ("infinity", "nan")
"""The kinds of blocks for which the OCP specification defines no result."""

_EXPONENTS = (-149, -140, -127, -126, -120, -30, -3, 0, 1, 7, 40, 119, 126, 127)


def _power(exponent: int) -> np.float32:
    return np.float32(2.0**exponent)


def _with_greatest(words: Words, greatest: np.ndarray, block: int) -> np.ndarray:
    """Returns blocks whose greatest magnitude is given: the other elements are random and at most half of it. The
    greatest element is at a random place and has a random sign."""
    count = len(greatest)
    # A random 24-bit fraction times the greatest magnitude, in f64, rounded to f32 once.
    parts = words.below(1 << 23, count, block).astype(np.float64) * 2.0**-24
    signs = 1.0 - 2.0 * words.below(2, count, block)
    x = (parts * signs * greatest[:, np.newaxis].astype(np.float64)).astype(np.float32)
    place, row = words.below(block, count), np.arange(count)
    x[row, place] = np.where(words.below(2, count) == 1, -greatest, greatest)
    return x


def _around(x: np.ndarray) -> np.ndarray:
    """Returns the values one ulp below, at and one ulp above each of x."""
    return np.concatenate([moved(x, ulps) for ulps in (-1, 0, 1)])


def _scaled(x: float) -> np.ndarray:
    """Returns x times powers of two over the whole range of f32, as float32."""
    wide = np.ldexp(x, np.array(_EXPONENTS) - 8)
    return wide[(wide >= 2.0**-148) & (wide < 2.0**127)].astype(np.float32)


def block_cases(element: Format, block: int, name: str) -> Cases:
    """Returns blocks `x` (float32 [cases, block]) whose scales and codes are near the edges of an element format.

    Kinds: normal; wide (exponents within a block differ by up to 60); power_of_two, maximum and carry (the greatest
    magnitude is within one ulp of a power of two, of the format's largest value times one, or of the number from which
    on a rounding to the format's precision carries); tie (elements in the middle of two codes); subnormal; zero; single
    (one element is not zero); large; and infinity and nan, which are open."""
    cases, words = Cases(), Words(f"block {name}")
    cases.add("normal", x=words.floats(-4, 2, 32, block))
    cases.add("wide", x=words.floats(-40, 20, 16, block))
    powers = np.array([_power(each) for each in _EXPONENTS if each > -149])
    cases.add("power_of_two", x=_with_greatest(words, _around(powers), block))
    largest = float(decode(np.array(element.largest), element))
    cases.add("maximum", x=_with_greatest(words, _around(_scaled(largest)), block))
    carry = 2 - 2.0 ** -(element.fraction_bits + 1)
    cases.add("carry", x=_with_greatest(words, _around(_scaled(carry)), block))
    cases.add("tie", x=_ties(words, element, block))
    cases.add("subnormal", x=words.floats(-127, -127, 8, block))
    zeros = np.zeros((3, block), np.float32)
    zeros[1], zeros[2, ::2] = -0.0, -0.0
    cases.add("zero", x=zeros)
    single = np.zeros((4, block), np.float32)
    single[np.arange(4), [0, 1, block // 2, block - 1]] = [1.0, -3.0, 1e-20, 1e20]
    cases.add("single", x=single)
    cases.add("large", x=_with_greatest(words, as_f32(np.array([0x7F7FFFFF, 0x7F7FFFFE, 0x7F400000])), block))
    for kind, values in (("infinity", NOT_NUMBERS[:2]), ("nan", NOT_NUMBERS[2:])):
        x = words.floats(-4, 2, len(values), block)
        x[np.arange(len(values)), words.below(block, len(values))] = values
        cases.add(kind, x=x)
    return cases


def _ties(words: Words, element: Format, block: int) -> np.ndarray:
    """Returns blocks with the largest value of the format, or a power of two above half of it, and ties of two codes
    and their neighbours in f32, times a power of two."""
    codes = np.arange(1, element.largest + 1)
    middles = ((decode(codes, element).astype(np.float64) + decode(codes - 1, element)) / 2).astype(np.float32)
    near = np.concatenate([middles, moved(middles, -1), moved(middles, 1)])
    count = 12
    x = near[words.below(len(near), count, block)]
    x = np.where(words.below(2, count, block) == 1, -x, x)
    x[:, 0] = np.where(np.arange(count) % 2 == 0, decode(np.array(element.largest), element), 2.0**element.max_exponent)
    return x * np.array([1, 1, 1, 1, 2.0**-10, 2.0**-10, 2.0**20, 2.0**20, 1, 1, 1, 1], np.float32)[:, np.newaxis]


def tensor_amaxes(x: np.ndarray) -> np.ndarray:
    """Returns, for blocks [cases, block], an amax of the tensor of each case: that of the block times 1 to 16, or NaN
    or infinity if the block has one."""
    greatest = np.abs(x).max(axis=-1)
    factors = np.array([1, 1, 1.5, 2, 3.7, 16], np.float32)[np.arange(len(x)) % 6]
    with np.errstate(over="ignore", invalid="ignore"):
        wide = greatest.astype(np.float64) * factors
    finite = np.minimum(wide, np.finfo(np.float32).max).astype(np.float32)
    return np.where(np.isfinite(greatest), finite, greatest).astype(np.float32)


def tensor_scales(count: int) -> np.ndarray:
    """Returns given scales of tensors, one per case, as float32."""
    values = np.array([1, 2.0**-10, 0.0123, 3.7e-5, 448.0, 1e-12], np.float32)
    return values[np.arange(count) % len(values)]


def scaled_codes(element: Format, block: int, scales: np.ndarray) -> Cases:
    """Returns `codes` (uint8 [cases, block]) and a scale for each case: all codes of an element format, in turn, and
    all given scales."""
    cases, words = Cases(), Words(f"codes {element.name} {block}")
    every = np.arange(1 << element.width).astype(np.uint8)
    rows = every[(np.arange(len(scales))[:, np.newaxis] * block + np.arange(block)) % len(every)]
    cases.add("every_code", codes=rows, scales=scales)
    drawn = words.below(len(scales), 32)
    cases.add("random", codes=words.below(1 << element.width, 32, block).astype(np.uint8), scales=scales[drawn])
    return cases
