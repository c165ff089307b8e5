# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""How the interpreter holds the element types, and how they look as bits.

An array of the interpreter holds

- f64 and f32 as numpy.float64 and numpy.float32;
- the storage types (V1), bf16, f16 and those of f8, f6 and f4, as numpy.float32 whose values the type represents
  exactly;
- i1 as numpy.bool_;
- every other integer up to i64, and index, as numpy.int64, sign-extended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from repro_mlir.base.errors import ProgramError
from repro_mlir.base.numerics.elements import ELEMENTS, BinaryFormat, float_format


@dataclass(frozen=True)
class ElementType:
    """An MLIR element type, by its MLIR name."""

    name: str
    width: int
    is_float: bool

    @property
    def is_storage(self) -> bool:
        """(V1) Whether the type is only stored, and computed with in f32."""
        return self.is_float and self.width < 32

    @property
    def dtype(self) -> np.dtype:
        """The numpy type in which the interpreter holds it."""
        if self.is_float:
            return np.dtype(np.float64 if self.width == 64 else np.float32)
        return np.dtype(np.bool_ if self.width == 1 else np.int64)

    @property
    def bits_dtype(self) -> np.dtype:
        """The numpy type of its bits: unsigned, a byte for less than 8."""
        return np.dtype(next(f"u{size}" for size in (1, 2, 4, 8) if self.width <= 8 * size))

    @property
    def format(self) -> BinaryFormat:
        return float_format(self.name)


def element_type(name: str) -> ElementType:
    """The element type with the MLIR name `name`; ProgramError for one that programs cannot use."""
    if name in ELEMENTS:
        return ElementType(name, ELEMENTS[name].width, ELEMENTS[name].format is not None)
    if name == "index":
        return ElementType(name, 64, False)
    match = re.fullmatch(r"i(\d+)", name)
    if match and 1 <= int(match[1]) <= 64:
        return ElementType(name, int(match[1]), False)
    known = ", ".join(element.name for element in ELEMENTS.values() if element.format is not None)
    raise ProgramError(f"expected {known}, i1 to i64 or index (V1), got {name}")


F32 = element_type("f32")
F64 = element_type("f64")


def round_to_format(x: np.ndarray, to: ElementType, saturate: bool = False) -> np.ndarray:
    """Rounds f32 or f64 values once, to nearest even, to the storage type `to` (S3).

    The values of the result are exact in its dtype, float32. What exceeds the largest finite value becomes infinity; in
    E4M3FN, which has none, NaN, or with `saturate` the largest finite value of that sign, and so in f6 and f4, which
    have neither infinities nor NaNs: there NaN becomes the largest value. No rule rounds to f8E8M0FNU.
    """
    fmt = to.format
    if fmt.is_scale:
        raise ProgramError(f"(V1) no rule rounds to {to.name}")
    wide = np.asarray(x, np.float64)
    # In units of the last place every step here is exact but rint, which rounds to nearest even.
    _, exponent = np.frexp(wide)
    last_place = np.maximum(exponent - 1, fmt.min_exponent) - (fmt.precision - 1)
    rounded = np.ldexp(np.rint(np.ldexp(wide, -last_place)), last_place)
    rounded = np.where(np.isfinite(wide), rounded, wide)
    overflow = np.abs(rounded) > fmt.max_finite
    if fmt.has_infinity:
        limit = np.copysign(np.inf, rounded)
    elif fmt.nan is None or saturate:
        limit = np.copysign(fmt.max_finite, rounded)
    else:
        limit = np.full_like(rounded, np.nan)
    rounded = np.where(overflow, limit, rounded)
    if fmt.nan is None:
        rounded = np.where(np.isnan(wide), fmt.max_finite, rounded)
    return rounded.astype(np.float32)


def is_exact(x: np.ndarray, of: ElementType) -> bool:
    """Whether the storage type `of` represents all of these float32 values."""
    fmt = of.format
    if fmt.is_scale:
        fraction, exponent = np.frexp(x)
        powers = (fraction == 0.5) & (exponent - 1 >= fmt.min_exponent)
        return bool((np.isnan(x) | powers & np.isfinite(x)).all())
    return np.array_equal(round_to_format(x, of), x, equal_nan=True)


def to_bits(x: np.ndarray, of: ElementType) -> np.ndarray:
    """The bits of each element, unsigned in whole bytes; a NaN is the canonical one (V4)."""
    if not of.is_float:
        if of.width == 1:
            return np.asarray(x).astype(np.uint8)
        unsigned = np.asarray(x, np.int64).astype(np.uint64)
        return (unsigned & np.uint64((1 << of.width) - 1)).astype(of.bits_dtype)
    nan = np.isnan(x)
    fmt = of.format
    if of.width >= 32:
        bits = np.ascontiguousarray(x, of.dtype).view(of.bits_dtype).reshape(np.shape(x))
        return np.where(nan, bits.dtype.type(fmt.nan_bits), bits)
    fraction_bits = fmt.fraction_bits
    wide = np.where(np.isfinite(x), x, 0).astype(np.float64)
    _, exponent = np.frexp(wide)
    exponent = np.maximum(np.where(wide == 0, fmt.min_exponent, exponent - 1), fmt.min_exponent)
    field = (exponent - fmt.min_exponent).astype(np.int64)
    if fmt.is_scale:
        bits = field
    else:
        # A subnormal has no hidden bit, so that its exponent field comes out as zero.
        bits = np.ldexp(np.abs(wide), fraction_bits - exponent).astype(np.int64) + (field << fraction_bits)
        bits |= np.signbit(wide).astype(np.int64) << (of.width - 1)
    if fmt.infinity is not None:
        signed = fmt.infinity | np.signbit(x).astype(np.int64) << (of.width - 1)
        bits = np.where(np.isinf(x), signed, bits)
    return np.where(nan, 0 if fmt.nan is None else fmt.nan, bits).astype(of.bits_dtype)


def from_bits(bits: np.ndarray, to: ElementType) -> np.ndarray:
    """The values that the unsigned `bits` stand for in the type `to`, as the interpreter holds them; bits above the
    type's width do not count."""
    if not to.is_float:
        return sign_extend(np.asarray(bits).astype(np.uint64).view(np.int64), to.width)
    bits = np.asarray(bits)
    if to.width >= 32:
        return np.ascontiguousarray(bits, to.bits_dtype).view(to.dtype).reshape(bits.shape)
    fmt = to.format
    fraction_bits = fmt.fraction_bits
    wide = bits.astype(np.int64)
    if fmt.is_scale:
        value = np.ldexp(np.ones(wide.shape), wide + fmt.min_exponent)
        return np.where(wide == fmt.nan, np.nan, value).astype(np.float32)
    magnitude = wide & (fmt.sign - 1)
    field, fraction = magnitude >> fraction_bits, magnitude & ((1 << fraction_bits) - 1)
    significand = np.where(field == 0, fraction, fraction + (1 << fraction_bits)).astype(np.float64)
    value = np.ldexp(significand, np.maximum(field, 1) - 1 + fmt.min_exponent - fraction_bits)
    if fmt.nan is not None:
        value = np.where(magnitude > fmt.largest, np.where(magnitude == fmt.infinity, np.inf, np.nan), value)
    return np.where(wide & fmt.sign != 0, -value, value).astype(np.float32)


def sign_extend(x: np.ndarray, width: int) -> np.ndarray:
    """Wraps int64 values to `width` bits (V1), as the interpreter holds them: bool for 1, else sign-extended int64."""
    if width == 1:
        return (x & 1).astype(np.bool_)
    if width == 64:
        return x
    shift = np.int64(64 - width)
    return (x << shift) >> shift


def canonical(x: np.ndarray, of: ElementType) -> np.ndarray:
    """The array with every NaN the canonical one (V4)."""
    if not of.is_float:
        return x
    nan = from_bits(np.array(of.format.nan_bits, of.bits_dtype), of) if of.width >= 32 else np.float32(np.nan)
    return np.where(np.isnan(x), nan, x).astype(of.dtype)
