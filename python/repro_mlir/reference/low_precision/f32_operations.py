# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(S1) The f32 operations of the low-precision rules, on arrays that broadcast; NaNs are canonical (V4)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import F32, canonical
from repro_mlir.reference import arithmetic
from repro_mlir.reference.low_precision.binary_formats import f32_bits
from repro_mlir.reference.low_precision.exact_rounding import Array


def _of_f32(operation: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    @functools.wraps(operation)
    @float_environment()
    def rounded(*operands: Array) -> np.ndarray:
        with np.errstate(all="ignore"):
            return canonical(operation(*(np.asarray(each, np.float32) for each in operands)), F32)

    return rounded


@_of_f32
def multiply(a: Array, b: Array) -> np.ndarray:
    """Returns a * b."""
    return np.multiply(a, b)


@_of_f32
def divide(a: Array, b: Array) -> np.ndarray:
    """Returns a / b."""
    return np.divide(a, b)


@_of_f32
def add(a: Array, b: Array) -> np.ndarray:
    """Returns a + b."""
    return np.add(a, b)


@_of_f32
def multiply_add(a: Array, b: Array, c: Array) -> np.ndarray:
    """Returns a * b + c with one rounding."""
    return arithmetic.fma(*np.broadcast_arrays(a, b, c))


def largest_magnitude(x: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """(Q2) Returns the amax: the greatest |x| of a float32 array along `axis`; NaN if an element is NaN, +0 if there
    are no elements."""
    # Magnitudes are ordered like their bits, with infinity above all numbers and NaNs above infinity.
    bits = f32_bits(x) & 0x7FFFFFFF
    bits = np.where(bits > 0x7F800000, 0x7FC00000, bits)
    return np.max(bits, axis=axis, initial=0).astype(np.uint32).view(np.float32)


def minimum(x: np.ndarray, limit: float) -> np.ndarray:
    """Returns the smaller of x and `limit`; NaN is unchanged."""
    return np.where(x > np.float32(limit), np.float32(limit), x)
