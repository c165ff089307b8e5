# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q3) Rounding of elements to their format, and the random bits of stochastic rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repro_mlir.base.numerics.philox import random_bits
from repro_mlir.reference.low_precision.binary_formats import (
    BF16,
    F4E2M1FN,
    F16,
    F32,
    BinaryFormat,
    Format,
    Unpacked,
    encode,
    f32_bits,
    unpack,
)
from repro_mlir.reference.low_precision.exact_rounding import Direction

NAN_CODES = ("largest", "zero", "negative_zero")


@dataclass(frozen=True)
class Rounding:
    """How an element is rounded.

    Attributes:
      direction: the rounding direction.
      bits: for STOCHASTIC: the number of random bits per element, 1 to 32.
      saturate: whether values out of range, including infinities, become the largest finite value.
      nan: for formats without NaN: whether the code of the largest value, of +0 or of -0 replaces NaN.
      signed_zero: whether an input of zero keeps its sign; a nonzero number that rounds to zero always does.
    """

    direction: Direction = Direction.NEAREST_EVEN
    bits: int = 0
    saturate: bool = True
    nan: str = "largest"
    signed_zero: bool = True

    def __post_init__(self) -> None:
        stochastic = self.direction is Direction.STOCHASTIC
        if self.nan not in NAN_CODES or not (1 if stochastic else 0) <= self.bits <= (32 if stochastic else 0):
            raise ValueError(f"expected 1 to 32 bits of a stochastic rounding and a NaN of {NAN_CODES}, got {self}")


NEAREST_EVEN = Rounding()
"""The default: to nearest, ties to even, saturating, NaN as in PTX `cvt.rn.satfinite`."""

NEAREST_AWAY = Rounding(Direction.NEAREST_AWAY)
TOWARD_ZERO = Rounding(Direction.TOWARD_ZERO)


def stochastic(bits: int) -> Rounding:
    """Returns stochastic rounding with `bits` random bits."""
    return Rounding(Direction.STOCHASTIC, bits)


ROUNDINGS: dict[str, Rounding] = {
    "rne": NEAREST_EVEN,
    "away": NEAREST_AWAY,
    "rz": TOWARD_ZERO,
    **{f"sr{bits}": stochastic(bits) for bits in (4, 8, 13, 16, 24, 32)},
}
"""(Q3) Saturating roundings by name; `stochastic` returns those with another number of bits."""


def round_unpacked(value: Unpacked, to: Format, rounding: Rounding, random: np.ndarray | None = None) -> np.ndarray:
    """Returns the codes (uint8, or wider for wider formats) of exact values; `random` as for `round_elements`."""
    if (rounding.direction is Direction.STOCHASTIC) != (random is not None):
        raise ValueError("expected random bits for stochastic rounding, and none for other directions")
    codes = encode(
        value.negative,
        value.magnitude,
        value.exponent,
        to,
        rounding.direction,
        None if random is None else np.asarray(random).astype(np.int64),
        rounding.bits,
        rounding.saturate,
    )
    if not rounding.signed_zero:
        # The input counts as zero if it rounds to zero in f32, as do magnitudes of at most 2^-150.
        as_f32 = encode(np.False_, value.magnitude, value.exponent, F32, Direction.NEAREST_EVEN)
        codes = np.where(as_f32 == 0, 0, codes)
    if value.infinite.any():
        one, far = np.int64(1), np.int64(1000)
        huge = encode(value.negative, one, far, to, Direction.NEAREST_EVEN, saturate=rounding.saturate)
        codes = np.where(value.infinite, huge, codes)
    if value.nan.any():
        sign = to.sign if isinstance(to, BinaryFormat) else 0
        without = {"largest": to.largest, "zero": 0, "negative_zero": sign}[rounding.nan]
        codes = np.where(value.nan, without if to.nan is None else to.nan, codes)
    width = to.width
    return codes.astype(next(t for t in (np.uint8, np.uint16, np.uint32) if width <= np.dtype(t).itemsize * 8))


def round_elements(
    x: np.ndarray,
    to: Format,
    rounding: Rounding = NEAREST_EVEN,
    shift: np.ndarray | int = 0,
    random: np.ndarray | None = None,
) -> np.ndarray:
    """(Q3) Returns the codes of x * 2^shift, rounded once.

    Args:
      x: float32.
      shift: integers that broadcast against x.
      random: for stochastic rounding: an integer below 2^bits per element.
    """
    value = unpack(f32_bits(x), F32)
    moved = Unpacked(value.negative, value.magnitude, value.exponent + shift, value.infinite, value.nan)
    return round_unpacked(moved, to, rounding, random)


# --- Random bits ---


def site_bits(shape: tuple[int, ...], bits: int, seed: int, site: int, step: int) -> np.ndarray:
    """(R1) Returns the first `bits` bits of the random word of each element of `shape`, row-major; int64."""
    return (random_bits(shape, seed, site, step) >> np.uint64(32 - bits)).astype(np.int64)


def _reversed16(bits: np.ndarray) -> np.ndarray:
    turned = np.zeros_like(bits)
    for position in range(16):
        turned |= (bits >> position & 1) << (15 - position)
    return turned


def ptx_bits(words: np.ndarray, to: BinaryFormat) -> np.ndarray:
    """(Q3) Returns the random bits with which PTX `cvt.rs` rounds each operand, in operand order.

    Args:
      words: an array [...] of the values of the operand `rbits`, integers below 2^32.
    Returns:
      int64 of shape [..., 2] for f16 (13 bits) and bf16 (16 bits), [..., 4] for f8, f6 and f4 (16 bits).
      `cvt.rs` writes the last operand, rounded, to the lowest bits of its result.
    """
    word = np.asarray(words).astype(np.int64)
    high, low = word >> 16, word & 0xFFFF
    if to == F16:
        return np.stack([high & 0x1FFF, low & 0x1FFF], axis=-1)
    if to == BF16:
        return np.stack([high, low], axis=-1)
    if to == F4E2M1FN:
        high, low = (word >> 24 << 8) | (word >> 8 & 0xFF), (word >> 16 & 0xFF) << 8 | (word & 0xFF)
    return np.stack([_reversed16(high), high, _reversed16(low), low], axis=-1)


def ptx_site_bits(shape: tuple[int, ...], to: BinaryFormat, seed: int, site: int, step: int) -> np.ndarray:
    """(Q3) Returns the random bits of each element of `shape`, row-major, if PTX `cvt.rs` rounds the elements; int64.

    Word g of the site is `rbits` of the elements 4g to 4g + 3, or, for f16 and bf16, 2g and 2g + 1. The first of these
    elements is the last operand.
    """
    each = 2 if to in (F16, BF16) else 4
    size = int(np.prod(shape, dtype=np.int64))
    bits = ptx_bits(random_bits((-(-size // each),), seed, site, step), to)
    return bits[:, ::-1].reshape(-1)[:size].reshape(shape)
