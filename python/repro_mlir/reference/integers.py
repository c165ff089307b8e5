# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Integer operations (I1) over arrays of sign-extended int64.

Each function takes int64 arrays of `width`-bit integers and returns int64 arrays of which only the low `width` bits are
correct: the caller wraps them (formats.sign_extend).
"""

from __future__ import annotations

import numpy as np


def as_unsigned(x: np.ndarray, width: int) -> np.ndarray:
    """Returns the low `width` bits of the values as uint64."""
    return x.astype(np.uint64) & np.uint64((1 << width) - 1)


def _signed_parts(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divides a by b. Returns the truncated quotient, its remainder, and a mask of the elements where b is zero; there,
    quotient and remainder are invalid."""
    zero = b == 0
    divisor = np.where(zero | (b == -1), np.int64(1), b)
    # Magnitudes are unsigned, since the magnitude of MIN does not fit in an int64.
    size = np.where(a < 0, -a, a).astype(np.uint64)
    by = np.where(divisor < 0, -divisor, divisor).astype(np.uint64)
    quotient = (size // by).astype(np.int64)
    quotient = np.where((a < 0) != (divisor < 0), -quotient, quotient)
    quotient = np.where(b == -1, -a, quotient)
    remainder = a - quotient * np.where(zero, np.int64(1), b)
    return quotient, remainder, zero


def divide_signed(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    """Returns the signed quotient: x / 0 = -1, and MIN / -1 = MIN by wrapping."""
    quotient, _, zero = _signed_parts(a, b)
    return np.where(zero, np.int64(-1), quotient)


def remainder_signed(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    """Returns the signed remainder: x % 0 = x, and MIN % -1 = 0."""
    _, remainder, zero = _signed_parts(a, b)
    return np.where(zero, a, remainder)


def divide_unsigned(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    """Returns the unsigned quotient; x / 0 has all bits set."""
    x, y = as_unsigned(a, width), as_unsigned(b, width)
    return np.where(y == 0, np.uint64(2**64 - 1), x // np.where(y == 0, np.uint64(1), y)).astype(np.int64)


def remainder_unsigned(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    """Returns the unsigned remainder; x % 0 = x."""
    x, y = as_unsigned(a, width), as_unsigned(b, width)
    return np.where(y == 0, x, x % np.where(y == 0, np.uint64(1), y)).astype(np.int64)


def shift_left(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    """Returns `a` shifted left by the unsigned amount `b`; 0 if the amount is at least the width."""
    amount = as_unsigned(b, width)
    over = amount >= width
    return np.where(over, np.int64(0), a << np.where(over, np.uint64(0), amount).astype(np.int64))


def shift_right_signed(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    """Returns the arithmetic right shift of `a` by the unsigned amount `b`; only sign bits if the amount is at least
    the width."""
    return a >> np.minimum(as_unsigned(b, width), np.uint64(63)).astype(np.int64)


def shift_right_unsigned(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    """Returns the logical right shift of `a` by the unsigned amount `b`; 0 if the amount is at least the width."""
    amount = as_unsigned(b, width)
    over = amount >= width
    shifted = as_unsigned(a, width) >> np.where(over, np.uint64(0), amount)
    return np.where(over, np.uint64(0), shifted).astype(np.int64)


def multiply_high_unsigned(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    """Returns the upper `width` bits of the unsigned product."""
    x, y = as_unsigned(a, width), as_unsigned(b, width)
    if width <= 32:
        return ((x * y) >> np.uint64(width)).astype(np.int64)
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    low, cross = x0 * y0, x1 * y0
    middle = (low >> half) + (cross & mask) + x0 * y1
    upper = x1 * y1 + (cross >> half) + (middle >> half)
    if width == 64:
        return upper.astype(np.int64)
    return ((upper << np.uint64(64 - width)) | ((x * y) >> np.uint64(width))).astype(np.int64)


def multiply_high_signed(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    """Returns the upper `width` bits of the signed product."""
    return multiply_high_unsigned(a, b, width) - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


def count_ones(a: np.ndarray, width: int) -> np.ndarray:
    """Returns the number of one bits (ctpop)."""
    return _population(as_unsigned(a, width))


def leading_zeros(a: np.ndarray, width: int) -> np.ndarray:
    """Returns the number of leading zeros; the width for 0."""
    x = as_unsigned(a, width)
    for shift in (1, 2, 4, 8, 16, 32):
        x = x | (x >> np.uint64(shift))
    return np.int64(width) - _population(x)


def trailing_zeros(a: np.ndarray, width: int) -> np.ndarray:
    """Returns the number of trailing zeros; the width for 0."""
    x = as_unsigned(a, width)
    below = ~x & (x - np.uint64(1))
    return _population(below & np.uint64((1 << width) - 1))


def _population(x: np.ndarray) -> np.ndarray:
    """Returns the number of one bits in each uint64."""
    octets = np.array(x, order="C")[..., np.newaxis].view(np.uint8)
    return np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=np.int64)
