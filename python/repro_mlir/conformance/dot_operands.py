# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operands of `dot`: products for which different rules of accumulation give different sums."""

from __future__ import annotations

import numpy as np

from repro_mlir.conformance.group import Cases
from repro_mlir.conformance.words import Words, as_f32
from repro_mlir.reference.low_precision.binary_formats import (
    F8E4M3FN,
    F16,
    TF32,
    BinaryFormat,
    decode,
)
from repro_mlir.reference.low_precision.block_rounding import Rounding, round_elements

TERMS = 64
"""The number of products of a case, a multiple of every accumulator's block."""


def dot_cases(of: BinaryFormat, result: str) -> Cases:
    """Returns operands `a` and `b` (codes of `of` [cases, TERMS], or float32 for tf32) and `c` (float32 [cases], values
    of the format `result`).

    Kinds: normal, wide (exponents far apart), cancelling (halves of the products are nearly opposite), staggered (of 8
    products, two are opposite and the others 2^6 to 2^26 times smaller), zero (only signs differ), subnormal, edge
    (codes next to 0, 1 and the largest value), large (sums that may overflow), and special (infinities and NaNs, where
    the format has them)."""
    cases, words = Cases(), Words(f"dot {of.name}")
    one, normal, top = of.bias << of.fraction_bits, 1 << of.fraction_bits, of.largest

    def pair(count: int, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        return words.codes(of, low, high, count, TERMS), words.codes(of, low, high, count, TERMS)

    def add(kind: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        cases.add(kind, a=_stored(a, of), b=_stored(b, of), c=_rounded(c, result))

    def some(c: np.ndarray, one_in: int) -> np.ndarray:
        return np.where(words.below(one_in, len(c)) == 0, np.float32(0), c)

    add("normal", *pair(24, -3, 3), some(words.floats(-6, 8, 24), 4))
    add("wide", *pair(16, -40, 40), some(words.floats(-60, 60, 16), 4))
    a, b = pair(16, -2, 2)
    half = TERMS // 2
    a[:, half:], b[:, half:] = a[:, :half] ^ of.sign, b[:, :half]
    row = np.arange(16)
    b[row, words.below(half, 16)] ^= 1
    add("cancelling", a, b, some(words.floats(-20, 0, 16), 2))
    a, b = pair(16, 0, 3)
    a[:, 1::8], b[:, 1::8] = a[:, ::8] ^ of.sign, b[:, ::8]
    small = [words.codes(of, -13, -3, 16, TERMS) for _ in "ab"]
    is_small = np.arange(TERMS) % 8 >= 2
    a, b = np.where(is_small, small[0], a), np.where(is_small, small[1], b)
    add("staggered", a, b, some(words.floats(-24, -10, 16), 2))
    signs = [words.below(2, 8, TERMS) * of.sign for _ in "ab"]
    c = as_f32(np.array([0, 0x80000000, 1, 0x80000001, 0x3F800000, 0, 0x80000000, 0x33800000]))
    add("zero", signs[0], signs[1] | np.where(np.arange(8)[:, np.newaxis] < 5, one, 0), c)
    smallest = words.below(normal, 8, TERMS) | words.below(2, 8, TERMS) * of.sign
    add("subnormal", smallest, words.codes(of, -1, 1, 8, TERMS), some(words.floats(-24, -10, 8), 2))
    table = np.array([0, 1, normal - 1, normal, one - 1, one, one + 1, top])
    edges = [table[words.below(len(table), 16, TERMS)] | words.below(2, 16, TERMS) * of.sign for _ in "ab"]
    add("edge", edges[0], edges[1], some(words.floats(-2, 2, 16), 2))
    add("large", *pair(8, 50, 127), some(words.floats(100, 127, 8), 2))
    if of.nan is not None:
        a, b = pair(12, -3, 3)
        specials = [of.nan] if of.infinity is None else [of.infinity, of.infinity | of.sign, of.nan]
        a[np.arange(12), words.below(TERMS, 12)] = np.array(specials)[np.arange(12) % len(specials)]
        a[8:, 5] = b[8:, 5] = 0
        b[10:, 9] = specials[0]
        add("special", a, b, words.floats(-3, 3, 12))
    return cases


def dot_scales(cases: int, format_name: str, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns scales of a and of b, uint8 [cases, TERMS / block]: codes of f8E8M0FNU near 1 with a few at the ends of
    the range and NaN, or codes of f8E4M3FN without a sign."""
    words = Words(f"scales {format_name} {block}")
    shape = cases, TERMS // block
    if format_name == F8E4M3FN.name:
        found = [words.below(F8E4M3FN.largest + 1, *shape) for _ in "ab"]
        ends = [0, 1, F8E4M3FN.largest, F8E4M3FN.nan_bits]
    else:
        found = [words.below(17, *shape) + 119 for _ in "ab"]
        ends = [0, 1, 254, 255]
    for scales in found:
        scales[np.arange(4), words.below(shape[1], 4)] = ends
    first, second = (each.astype(np.uint8) for each in found)
    return first, second


def _stored(codes: np.ndarray, of: BinaryFormat) -> np.ndarray:
    if of == TF32:
        return as_f32(codes << 13)
    return codes.astype(np.uint8 if of.width <= 8 else np.uint16)


def _rounded(c: np.ndarray, result: str) -> np.ndarray:
    return decode(round_elements(c, F16, Rounding()), F16) if result == F16.name else c
