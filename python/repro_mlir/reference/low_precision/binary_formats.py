# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q1) The low-precision formats as data, decoding of their codes, and rounding to them.

A code is the bits of a value as an unsigned integer, one code per array element, regardless of its width.

Sources: OCP OFP8 1.0 (f8E4M3FN, f8E5M2), OCP Microscaling Formats 1.0 (f6, f4, MXINT8, f8E8M0FNU), IEEE 754 (f16, f32).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repro_mlir.base.numerics.elements import BinaryFormat, float_format
from repro_mlir.reference.low_precision.exact_rounding import (
    Array,
    Direction,
    bit_length,
    round_to_place,
    round_to_precision,
)


@dataclass(frozen=True)
class FixedFormat:
    """A two's complement integer in units of 2^least_place.

    Attributes:
      name: a name of this project; the MLIR type is i8.
      width: the number of bits of a code.
      least_place: the exponent of the unit.
      symmetric: whether rounding never gives the least integer, -2^(width-1).
    """

    name: str
    width: int
    least_place: int
    symmetric: bool = True
    infinity = None
    nan = None

    @property
    def largest(self) -> int:
        """The code of the largest value."""
        return (1 << (self.width - 1)) - 1

    @property
    def largest_integer(self) -> int:
        """The largest value in units of 2^least_place."""
        return self.largest

    @property
    def fraction_bits(self) -> int:
        """The number of bits after the leading bit of the largest value."""
        return self.width - 2

    @property
    def max_exponent(self) -> int:
        """floor(log2) of the largest value."""
        return self.width - 2 + self.least_place


Format = BinaryFormat | FixedFormat

F8E4M3FN = float_format("f8E4M3FN")
F8E5M2 = float_format("f8E5M2")
F6E3M2FN = float_format("f6E3M2FN")
F6E2M3FN = float_format("f6E2M3FN")
F4E2M1FN = float_format("f4E2M1FN")
F8E8M0FNU = float_format("f8E8M0FNU")
MXINT8 = FixedFormat("mxint8", 8, -6)
MXINT8_FULL = FixedFormat("mxint8_full", 8, -6, symmetric=False)
F16 = float_format("f16")
BF16 = float_format("bf16")
TF32 = BinaryFormat("tf32", 8, 10, 127, 0x3FBFF, 0x3FC00, 0x3FE00)
E8M13 = BinaryFormat("e8m13", 8, 13, 127, 0x1FDFFF, 0x1FE000, 0x1FF000)
F32 = float_format("f32")

ELEMENT_FORMATS: dict[str, Format] = {
    each.name: each for each in (F8E4M3FN, F8E5M2, F6E3M2FN, F6E2M3FN, F4E2M1FN, MXINT8, MXINT8_FULL)
}
"""(Q1) The element formats of blocks, by name."""

FORMATS: dict[str, Format] = {**ELEMENT_FORMATS, **{each.name: each for each in (F16, BF16, TF32, E8M13, F32)}}
"""All formats by name."""

E8M0_BIAS = F8E8M0FNU.bias
E8M0_NAN = F8E8M0FNU.nan_bits


@dataclass(frozen=True)
class Unpacked:
    """Decoded codes, as arrays of one shape.

    Attributes:
      negative: the sign.
      magnitude: int64 in units of 2^exponent; 0 for values that are not finite.
      exponent: int64, the exponent of the last bit.
      infinite: a mask of infinities.
      nan: a mask of NaNs.
    """

    negative: np.ndarray
    magnitude: np.ndarray
    exponent: np.ndarray
    infinite: np.ndarray
    nan: np.ndarray

    @property
    def finite(self) -> np.ndarray:
        """A mask of finite values."""
        return ~(self.infinite | self.nan)


def unpack(codes: np.ndarray, of: Format) -> Unpacked:
    """Returns the values of codes (any unsigned dtype, below 2^width)."""
    wide = np.asarray(codes).astype(np.int64)
    none = np.zeros(wide.shape, np.bool_)
    if isinstance(of, FixedFormat):
        signed = wide - ((wide >> (of.width - 1)) << of.width)
        return Unpacked(signed < 0, np.abs(signed), np.full_like(wide, of.least_place), none, none)
    negative, magnitude = wide & of.sign != 0, wide & (of.sign - 1)
    infinite = none if of.infinity is None else magnitude == of.infinity
    nan = none if of.nan is None else (magnitude > of.largest) & ~infinite
    field, fraction = magnitude >> of.fraction_bits, magnitude & ((1 << of.fraction_bits) - 1)
    significand = np.where(field == 0, fraction, fraction + (1 << of.fraction_bits))
    exponent = np.maximum(field, 1) - 1 + of.least_place
    return Unpacked(negative, np.where(infinite | nan, 0, significand), exponent, infinite, nan)


def pack_f32(value: Unpacked) -> np.ndarray:
    """Returns the values as float32, which represents all of them."""
    # All formats here are subsets of f32, so the rounding is exact.
    return to_f32(encode(value.negative, value.magnitude, value.exponent, F32, Direction.TOWARD_ZERO), value)


def to_f32(codes: np.ndarray, special: Unpacked) -> np.ndarray:
    """Returns f32 codes as float32, with the infinities and NaNs of `special`."""
    assert F32.infinity is not None and F32.nan is not None
    signed = np.where(special.negative, F32.sign, 0) | F32.infinity
    bits = np.where(special.nan, F32.nan, np.where(special.infinite, signed, codes))
    return np.asarray(bits, np.uint32, order="C").view(np.float32)


def encode(
    negative: Array,
    magnitude: Array,
    exponent: Array,
    to: Format,
    direction: Direction,
    random: np.ndarray | None = None,
    bits: int = 0,
    saturate: bool = False,
) -> np.ndarray:
    """(Q3) Rounds exact values; returns the int64 codes of the results.

    Values are rounded as if the format had no largest value. A result above the largest finite value then becomes that
    value if `saturate`, or if the format has neither infinities nor NaNs; else an infinity, or a NaN if the format has
    no infinities. TOWARD_ZERO also overflows to infinity.
    """
    negative, magnitude, exponent = np.broadcast_arrays(negative, magnitude, exponent)
    if isinstance(to, FixedFormat):
        # The exact value is irrelevant from 2^40 units on, because it overflows in any case.
        far = (magnitude != 0) & (exponent + bit_length(magnitude) > to.least_place + 40)
        place = np.broadcast_to(np.int64(to.least_place), exponent.shape)
        inside = np.where(far, 0, magnitude)
        q = np.where(far, 1 << 40, round_to_place(negative, inside, exponent, place, direction, random, bits))
        limit = to.largest_integer + (negative & (not to.symmetric))
        q = np.minimum(q, limit)
        return np.where(negative, -q, q) & ((1 << to.width) - 1)
    q, place = round_to_precision(
        negative, magnitude, exponent, to.fraction_bits + 1, to.least_place, direction, random, bits
    )
    # A normal q includes its hidden bit, which adds one to the exponent field; so does a carry out of the fraction.
    field = np.clip(place - to.least_place, 0, 1 << (to.exponent_bits + 1))
    code = np.where(magnitude == 0, 0, (field << to.fraction_bits) + q)
    over = code > to.largest
    beyond = to.largest if saturate else next((c for c in (to.infinity, to.nan) if c is not None), to.largest)
    sign = np.where(negative, to.sign, 0)
    if beyond == to.nan:
        sign = np.where(over, 0, sign)
    return np.where(over, beyond, code) | sign


def decode(codes: np.ndarray, of: Format) -> np.ndarray:
    """(Q1) Returns the float32 values of codes, which are exact; NaN is the canonical NaN (V4)."""
    return pack_f32(unpack(codes, of))


def decode_scale(codes: np.ndarray) -> np.ndarray:
    """(Q1) Returns the float32 values of f8E4M3FN scales, whose sign bit is ignored."""
    return decode(np.asarray(codes) & (F8E4M3FN.sign - 1), F8E4M3FN)


def f32_bits(x: np.ndarray) -> np.ndarray:
    """Returns the bits (int64) of float32 values."""
    return np.asarray(x, np.float32, order="C").view(np.uint32).astype(np.int64)


def unpack_e8m0(codes: np.ndarray) -> Unpacked:
    """(Q1) Returns the values of f8E8M0FNU codes: 2^(code - 127), and NaN for 255."""
    wide = np.asarray(codes).astype(np.int64)
    none = np.zeros(wide.shape, np.bool_)
    return Unpacked(none, np.ones_like(wide), wide - E8M0_BIAS, none, wide == E8M0_NAN)


def decode_e8m0(codes: np.ndarray) -> np.ndarray:
    """(Q1) Returns the float32 values of f8E8M0FNU codes; code 0 is the subnormal 2^-127."""
    return pack_f32(unpack_e8m0(codes))
