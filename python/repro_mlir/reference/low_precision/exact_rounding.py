# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Rounds exact values to few bits in integer arithmetic, independent of the host's floating-point unit.

A value is (-1)^negative * magnitude * 2^exponent, stored as broadcastable arrays of bool, int64 and int64; magnitudes
are below 2^62.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

LARGEST_SHIFT = 63
_POWERS = np.int64(1) << np.arange(63, dtype=np.int64)

Array = np.ndarray | np.generic
"""An array, or a NumPy scalar that broadcasts against arrays."""


class Direction(Enum):
    """The direction in which a value between two neighbours is rounded."""

    NEAREST_EVEN = "nearest_even"
    NEAREST_AWAY = "nearest_away"
    TOWARD_ZERO = "toward_zero"
    DOWN = "down"
    STOCHASTIC = "stochastic"


def bit_length(magnitude: np.ndarray) -> np.ndarray:
    """Returns the number of bits of each non-negative int64, 0 for 0."""
    return np.searchsorted(_POWERS, magnitude, side="right")


def shift_left(magnitude: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Returns magnitude * 2^count, rounded toward zero if count is negative."""
    left = np.clip(count, 0, LARGEST_SHIFT)
    right = np.clip(-np.asarray(count), 0, LARGEST_SHIFT)
    return (magnitude << left) >> right


def round_to_place(
    negative: np.ndarray,
    magnitude: np.ndarray,
    exponent: np.ndarray,
    place: np.ndarray,
    direction: Direction,
    random: np.ndarray | None = None,
    bits: int = 0,
) -> np.ndarray:
    """(Q3) Rounds the value to a multiple of 2^place; returns its magnitude in units of 2^place, as int64.

    Args:
      random: for STOCHASTIC: integers below 2^bits.
      bits: the number of bits of `random`, at most 32.
    """
    shift = np.asarray(place - exponent)
    whole = shift_left(magnitude, -shift)
    # `rest` is the discarded part, and `half` is half of the unit 2^place. A unit of 2^63 or more is more than twice
    # any magnitude.
    cut = np.clip(shift, 0, LARGEST_SHIFT)
    rest = np.where(shift > 0, magnitude - (whole << cut), 0)
    half = np.where(shift > 0, np.int64(1) << np.clip(cut - 1, 0, LARGEST_SHIFT - 1), 1)
    near = shift < LARGEST_SHIFT
    match direction:
        case Direction.NEAREST_EVEN:
            up = near & ((rest > half) | ((rest == half) & (whole & 1 == 1)))
        case Direction.NEAREST_AWAY:
            up = near & (rest >= half)
        case Direction.TOWARD_ZERO:
            up = np.zeros_like(near)
        case Direction.DOWN:
            up = negative & (rest != 0)
        case Direction.STOCHASTIC:
            assert random is not None
            # Keeps the first `bits` bits of the discarded part; the others cannot cause a carry.
            up = (shift_left(rest, bits - shift) + random) >> bits != 0
    return whole + up


def round_to_precision(
    negative: np.ndarray,
    magnitude: np.ndarray,
    exponent: np.ndarray,
    precision: int,
    least_place: int,
    direction: Direction,
    random: np.ndarray | None = None,
    bits: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Rounds the value to `precision` significant bits, none of them below 2^least_place.

    Returns integers q and places p such that the magnitude is q * 2^p; q is at most 2^precision.
    """
    place = np.maximum(exponent + bit_length(magnitude) - precision, least_place)
    return round_to_place(negative, magnitude, exponent, place, direction, random, bits), place
