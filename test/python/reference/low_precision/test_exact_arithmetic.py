# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(S1) The integer arithmetic under the rules of low precision, against NumPy's f32 and Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from edge_values import SPECIAL, as_f32, bits
from repro_mlir.reference import arithmetic, exact_f32
from repro_mlir.reference.exact_rounding import bit_length, shift_left

COUNT = 300_000


def operands(rng: np.random.Generator) -> np.ndarray:
    """Free bits, few significant bits, subnormals, exponents around that of 1; all special values."""
    free = rng.integers(0, 2**32, COUNT)
    kind = rng.integers(0, 5, COUNT)
    masks = np.array([0xFFFFFFFF, 0xFF800007, 0x807FFFFF, 0x83FFFFFF, 0x83FFFFFF])[kind]
    bases = np.array([0, 0, 0, 0x3C000000, 0x3C000000])[kind]
    return np.concatenate([as_f32(free & masks | bases), np.repeat(SPECIAL, len(SPECIAL))])


@pytest.mark.parametrize(
    "got, want",
    [
        (exact_f32.multiply, lambda a, b, c: a * b),
        (exact_f32.divide, lambda a, b, c: a / b),
        (exact_f32.add, lambda a, b, c: a + b),
        (exact_f32.multiply_add, arithmetic.fma),
    ],
)
def test_operations_S1(got: Callable[..., np.ndarray], want: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(5)
    a, b, c = operands(rng), operands(rng), operands(rng)
    b[-(len(SPECIAL) ** 2) :] = np.tile(SPECIAL, len(SPECIAL))
    with np.errstate(all="ignore"):
        # Some sums cancel, to nothing or to few bits.
        near = (-(a * b)).view(np.uint32).astype(np.int64) + rng.integers(-2, 3, len(c))
        c = np.where(rng.integers(0, 3, len(c)) == 0, as_f32(near & 0xFFFFFFFF), c)
        if got is exact_f32.add:
            b = np.where(rng.integers(0, 3, len(b)) == 0, np.nextafter(-a, b, dtype=np.float32), b)
        expected = want(a, b, c)
    result = got(a, b, c) if got is exact_f32.multiply_add else got(a, b)
    np.testing.assert_array_equal(bits(result), bits(expected))


def test_amax_S2() -> None:
    x = np.array([[0.0, -0.0], [-3.0, 2.0], [np.inf, 1.0], [-np.inf, np.nan], [-(2.0**-149), 0.0]], np.float32)
    want = np.array([0.0, 3.0, np.inf, np.nan, 2.0**-149], np.float32)
    np.testing.assert_array_equal(bits(exact_f32.largest_magnitude(x, -1)), bits(want))
    assert bits(exact_f32.largest_magnitude(np.zeros((1, 0), np.float32), -1)).tolist() == [0]


def test_integers() -> None:
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.integers(0, 2**62, 2000) >> rng.integers(0, 62, 2000), [0, 1, 2**53, 2**53 - 1, 2**62 - 1]])
    assert list(bit_length(x)) == [int(v).bit_length() for v in x]
    for count in (-70, -3, 0):
        assert list(shift_left(x, np.full_like(x, count))) == [int(v) >> -count for v in x]
