# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operands of `function`: the hardest arguments of the elementary functions (S5), special values and random values."""

from __future__ import annotations

import functools
import itertools
import json
from pathlib import Path

import numpy as np

from repro_mlir.conformance.group import Cases
from repro_mlir.conformance.words import Words, as_f32, signed
from repro_mlir.reference.functions import BINARY

HARD_CASES = Path(__file__).with_name("hard_cases.json")
"""For f32 and f64 and each function: the bits of arguments whose results are very close to the middle of two numbers.

Those of f32 are all arguments whose result is within a relative 2^-48 of such a middle (tools/functions/expect.py).
Those of f64 are from published searches and from our own (tools/functions/search_double.py)."""

# 0, the ends of the subnormals, 2^-12, 1/4, 1/2, the neighbours of 1, 2, pi, 10, limits of exp and of exp2, 2^23, 2^24,
# 2^100, the largest number.
_SPECIAL = (0, 1, 0x7FFFFF, 0x800000, 0x39800000, 0x3E800000, 0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001)
_LARGE = (0x40000000, 0x40490FDB, 0x41200000, 0x42B17218, 0x42CFF1B5, 0x43000000, 0x4B000000, 0x4B800000, 0x71800000)
_FEW = (
    0,
    1,
    0x00800000,
    0x3F000000,
    0x3F7FFFFF,
    0x3F800000,
    0x3F800001,
    0x40400000,
    0x4B800001,
    0x7F7FFFFF,
    0x7F800000,
)


@functools.cache
def hard_cases() -> dict[str, dict[str, list[str]]]:
    """Returns the contents of HARD_CASES: by type and function, the bits of arguments in hexadecimal digits."""
    found: dict[str, dict[str, list[str]]] = json.loads(HARD_CASES.read_text())
    return found


def function_cases(name: str, kind: str) -> Cases:
    """Returns the arguments `x`, and `y` or `n` for functions of two arguments, as float32 or float64 (`kind`), and n
    as int32. Kinds: hard, special and random."""
    if name in BINARY:
        return _pairs(name, kind)
    cases, words = Cases(), Words(f"function {name}")
    dtype = np.dtype("f4" if kind == "f32" else "f8")
    if hard := hard_cases()[kind].get(name):
        bits = np.array([int(each, 16) for each in hard], np.uint32 if kind == "f32" else np.uint64)
        cases.add("hard", x=bits.view(dtype))
    ends = as_f32(np.array([*_SPECIAL, *_LARGE, 0x7F7FFFFF, 0x7F800000]))
    special = np.append(signed(ends), np.float32(np.nan)).astype(dtype)
    if kind == "f64":
        special = np.append(special, signed(np.array([5e-324, 2.0**-1022, 709.782712893384, 1.7976931348623157e308])))
    cases.add("special", x=special)
    x = words.floats(-6, 4, 64)
    cases.add("random", x=x if kind == "f32" else x.astype(dtype) * (1 + words.below(1 << 30, 64) * 2.0**-53))
    return cases


def _pairs(name: str, kind: str) -> Cases:
    cases, words = Cases(), Words(f"function {name}")
    dtype = np.dtype("f4" if kind == "f32" else "f8")
    few = np.append(signed(as_f32(np.array(_FEW))), np.float32(np.nan)).astype(dtype)
    if name == "powi":
        exponents = np.array([0, 1, -1, 2, 3, -3, 7, 31, -126, 2147483647, -2147483648], np.int32)
        x, n = (np.array(each) for each in zip(*itertools.product(few, exponents), strict=True))
        cases.add("special", x=x.astype(dtype), n=n.astype(np.int32))
        near_one = words.floats(-1, 0, 128).astype(dtype)
        cases.add("random", x=near_one, n=(words.below(129, 128) - 64).astype(np.int32))
        return cases
    x, y = (np.array(each) for each in zip(*itertools.product(few, few), strict=True))
    cases.add("special", x=x.astype(dtype), y=y.astype(dtype))
    cases.add("random", x=words.floats(-6, 4, 128), y=words.floats(-6, 4, 128))
    return cases
