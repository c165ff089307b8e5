# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operands of `decode` and `round`: codes, and the values at which rounding to a format changes."""

from __future__ import annotations

import numpy as np

from repro_mlir.conformance.group import Cases
from repro_mlir.conformance.words import NOT_NUMBERS, Words, as_f32, moved, signed
from repro_mlir.reference.low_precision.binary_formats import BinaryFormat, Format, decode

_EVERY = 8
"""The widest formats of which all codes are cases."""


def codes_of(of: BinaryFormat) -> np.ndarray:
    """Returns all codes of a format of at most 8 bits; else, with both signs, 512 random codes and those next to 0, to
    the smallest normal value, to 1, to the largest value and to infinity. The dtype is the least unsigned one."""
    dtype = np.uint8 if of.width <= 8 else np.uint16
    if of.width <= _EVERY:
        return np.arange(1 << of.width).astype(dtype)
    edges = [0, 1 << of.fraction_bits, of.bias << of.fraction_bits, of.largest]
    near = {edge + more for edge in edges for more in range(-4, 5) if edge + more >= 0}
    drawn = Words(f"codes {of.name}").below(of.sign, 512).tolist()
    magnitudes = np.array(sorted({*near, *drawn}))
    return np.concatenate([magnitudes, magnitudes | of.sign]).astype(dtype)


def _magnitudes(of: Format) -> np.ndarray:
    """Returns codes of values above 0 such that the code after each of them is also finite, or the largest one."""
    if of.width <= _EVERY:
        return np.arange(1, of.largest + 1)
    assert isinstance(of, BinaryFormat)
    normal = 1 << of.fraction_bits
    edges = [1, normal, 2 * normal, of.bias << of.fraction_bits, of.largest]
    near = {edge + more for edge in edges for more in range(-3, 4) if 1 <= edge + more <= of.largest}
    return np.array(sorted({*near, *(Words(f"round {of.name}").below(of.largest - 1, 300) + 1).tolist()}))


def _is_exact_f32(x: np.ndarray) -> np.ndarray:
    return np.isfinite(x) & (np.abs(x) <= np.finfo(np.float32).max)


def rounding_cases(of: Format) -> Cases:
    """Returns float32 values `x` of these kinds, with both signs: values of the format (exact), the middles of
    neighbours (tie), values one ulp from these (near), the same below the smallest normal value (subnormal,
    subnormal_tie), magnitudes that round beyond the largest value (overflow), zeros, random values, infinities, NaNs.
    """
    cases, words = Cases(), Words(f"values {of.name}")
    codes = _magnitudes(of)
    values = decode(codes, of).astype(np.float64)
    below = decode(codes - 1, of).astype(np.float64)
    ties = (values + below) / 2
    is_subnormal = values < 2.0**of.min_exponent if isinstance(of, BinaryFormat) else np.zeros(len(values), np.bool_)
    for kind, chosen in (("", ~is_subnormal), ("subnormal", is_subnormal)):
        if not chosen.any():
            continue
        exact, middle = values[chosen].astype(np.float32), ties[chosen].astype(np.float32)
        cases.add(kind or "exact", x=signed(exact))
        cases.add(f"{kind}_tie" if kind else "tie", x=signed(middle))
        near = np.concatenate([moved(each, ulps) for each in (exact, middle) for ulps in (-1, 1)])
        cases.add(kind or "near", x=signed(near))
    largest = decode(np.array([of.largest, of.largest - 1]), of).astype(np.float64)
    step = largest[0] - largest[1]
    beyond = np.array([largest[0] + step / 2, largest[0] + step * 0.75, largest[0] + step, 2 * largest[0], 3.0e38])
    limit = beyond[_is_exact_f32(beyond)].astype(np.float32)
    limit = np.concatenate([limit, moved(limit[:1], -1), moved(limit[:1], 1), as_f32(np.array([0x7F7FFFFF]))])
    cases.add("overflow", x=signed(limit))
    cases.add("zero", x=signed(np.zeros(1, np.float32)))
    tiny = as_f32(np.array([1, 2, 0x7FFFFF, 0x800000, 0x800001]))
    cases.add("subnormal_f32", x=signed(tiny))
    within = words.floats(max(of.least_place - 1, -127), of.max_exponent, 128)
    drawn = np.concatenate([within, words.floats(-30, 30, 128), words.floats(-127, 127, 64)])
    is_beyond = np.abs(drawn) > largest[0]
    cases.add("random", x=drawn[~is_beyond])
    cases.add("overflow", x=drawn[is_beyond])
    cases.add("infinity", x=NOT_NUMBERS[:2])
    cases.add("nan", x=NOT_NUMBERS[2:])
    return cases


def wide_cases(of: BinaryFormat) -> Cases:
    """Returns float64 values `x` that a rounding to float32 first would round twice (double_rounding), and others."""
    cases, words = Cases(), Words(f"wide {of.name}")
    codes = _magnitudes(of)
    codes = codes[:: max(len(codes) // 128, 1)]
    ties = (decode(codes, of).astype(np.float64) + decode(codes - 1, of).astype(np.float64)) / 2
    cases.add("tie", x=signed(ties))
    # These values round to the tie in float32, and from there to an even code.
    cases.add("double_rounding", x=signed(np.concatenate([ties * (1 - 2.0**-40), ties * (1 + 2.0**-40)])))
    cases.add("random", x=words.floats(-20, 20, 128).astype(np.float64) * (1 + words.below(1 << 30, 128) * 2.0**-53))
    cases.add("subnormal_f64", x=signed(np.array([5e-324, 2.0**-1022, 2.0**-150, 2.0**-149])))
    cases.add("overflow", x=signed(np.array([1e39, 1.7976931348623157e308, 2.0 * of.max_finite])))
    cases.add("zero", x=signed(np.zeros(1)))
    cases.add("infinity", x=signed(np.array([np.inf])))
    cases.add("nan", x=np.array([np.nan]))
    return cases
