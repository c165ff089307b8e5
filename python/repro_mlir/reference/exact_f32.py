# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(S1) The operations of f32 that rules of low precision name, in integers.

Operands are float32 arrays that broadcast, results float32 with canonical NaNs (V4). The host's rounding mode and its
treatment of subnormals have no part in them.
"""

from __future__ import annotations

import numpy as np

from .binary_formats import F32, Unpacked, encode, f32_bits, to_f32, unpack
from .exact_rounding import LARGEST_SHIFT, Array, Direction, bit_length, shift_left

_TOP = 61
"""Bits to which the operands of a sum are shifted, so that their sum is below 2^62."""


def _operands(*operands: Array) -> list[Unpacked]:
    return [unpack(f32_bits(each), F32) for each in np.broadcast_arrays(*operands)]


def multiply(a: Array, b: Array) -> np.ndarray:
    """a * b."""
    x, y = _operands(a, b)
    negative = x.negative ^ y.negative
    magnitude, exponent = x.magnitude * y.magnitude, x.exponent + y.exponent
    infinite = x.infinite | y.infinite
    zero = (x.finite & (x.magnitude == 0)) | (y.finite & (y.magnitude == 0))
    nan = x.nan | y.nan | (infinite & zero)
    codes = encode(negative, magnitude, exponent, F32, Direction.NEAREST_EVEN)
    return to_f32(codes, Unpacked(negative, magnitude, exponent, infinite, nan))


def divide(a: Array, b: Array) -> np.ndarray:
    """a / b."""
    x, y = _operands(a, b)
    negative = x.negative ^ y.negative
    # With the dividend at 61 bits and the divisor at 24 the quotient has at least 37, of which the last is sticky.
    up, down = _TOP - bit_length(x.magnitude), 24 - bit_length(y.magnitude)
    divisor = np.where(y.magnitude == 0, 1, y.magnitude << down)
    quotient, rest = np.divmod(np.where(x.magnitude == 0, 0, x.magnitude << up), divisor)
    magnitude, exponent = quotient | (rest != 0), x.exponent - up - y.exponent + down
    zero_x, zero_y = x.finite & (x.magnitude == 0), y.finite & (y.magnitude == 0)
    nan = x.nan | y.nan | (x.infinite & y.infinite) | (zero_x & zero_y)
    infinite = x.infinite | zero_y
    codes = encode(negative, np.where(y.infinite, 0, magnitude), exponent, F32, Direction.NEAREST_EVEN)
    return to_f32(codes, Unpacked(negative, magnitude, exponent, infinite, nan))


def exact_sum(
    terms: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sum of two values (negative, magnitude below 2^48, exponent), its last bit sticky.

    The magnitude of the result is below 2^62 and rounds, to at most 56 bits, as the exact sum does. A sum of zeros is
    negative where both are, an exact cancellation is +0.
    """
    (s0, m0, e0), (s1, m1, e1) = terms
    up0, up1 = _TOP - bit_length(m0), _TOP - bit_length(m1)
    # A zero has the exponent of the other one, so that it shifts nothing.
    e0, e1 = e0 - up0, e1 - up1
    e0, e1 = np.where(m0 == 0, e1, e0), np.where(m1 == 0, e0, e1)
    exponent = np.maximum(e0, e1)

    def aligned(m: np.ndarray, up: np.ndarray, e: np.ndarray) -> np.ndarray:
        high, down = np.where(m == 0, 0, m << np.clip(up, 0, LARGEST_SHIFT)), exponent - e
        low = shift_left(high, -down)
        return low | ((low << np.clip(down, 0, LARGEST_SHIFT)) != high)

    first, second = aligned(m0, up0, e0), aligned(m1, up1, e1)
    total = np.where(s0, -first, first) + np.where(s1, -second, second)
    return np.where(total == 0, s0 & s1, total < 0), np.abs(total), exponent


def multiply_add(a: Array, b: Array, c: Array) -> np.ndarray:
    """a * b + c in one rounding."""
    x, y, z = _operands(a, b, c)
    product = x.negative ^ y.negative
    infinite = x.infinite | y.infinite
    zero = (x.finite & (x.magnitude == 0)) | (y.finite & (y.magnitude == 0))
    nan = x.nan | y.nan | z.nan | (infinite & zero) | (infinite & z.infinite & (product != z.negative))
    negative, magnitude, exponent = exact_sum(
        ((product, x.magnitude * y.magnitude, x.exponent + y.exponent), (z.negative, z.magnitude, z.exponent))
    )
    negative = np.where(infinite, product, np.where(z.infinite, z.negative, negative))
    codes = encode(negative, magnitude, exponent, F32, Direction.NEAREST_EVEN)
    return to_f32(codes, Unpacked(negative, magnitude, exponent, infinite | z.infinite, nan))


def add(a: Array, b: Array) -> np.ndarray:
    """a + b."""
    return multiply_add(a, np.float32(1), b)


def largest_magnitude(x: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """(Q2) The amax: the greatest |x| along `axis` of a float32 array, NaN where there is one; +0 without elements."""
    # Magnitudes order as their bits do, infinity above all numbers and NaNs above it.
    bits = f32_bits(x) & 0x7FFFFFFF
    bits = np.where(bits > 0x7F800000, 0x7FC00000, bits)
    return np.max(bits, axis=axis, initial=0).astype(np.uint32).view(np.float32)


def minimum_magnitude(x: np.ndarray, limit: float) -> np.ndarray:
    """The lesser of x and a limit, both not negative; NaN stays."""
    return np.where(x > np.float32(limit), np.float32(limit), x)
