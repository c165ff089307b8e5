# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The NumPy representation of each element type in the reference interpreter, and conversions to and from bits.

An array of the reference interpreter represents

- f64 and f32 as numpy.float64 and numpy.float32;
- the storage types (V1), bf16, f16 and the f8, f6 and f4 types, as numpy.float32 with values that the type represents
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
    """An MLIR element type."""

    name: str
    width: int
    is_float: bool

    @property
    def is_storage(self) -> bool:
        """(V1) Whether the type is used only for storage, with arithmetic in f32."""
        return self.is_float and self.width < 32

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type that represents the type in the reference interpreter."""
        if self.is_float:
            return np.dtype(np.float64 if self.width == 64 else np.float32)
        return np.dtype(np.bool_ if self.width == 1 else np.int64)

    @property
    def bits_dtype(self) -> np.dtype:
        """The unsigned NumPy type that contains the bits of a value, at least one byte wide."""
        return np.dtype(next(f"u{size}" for size in (1, 2, 4, 8) if self.width <= 8 * size))

    @property
    def format(self) -> BinaryFormat:
        """The binary format of the type, which must be a float."""
        return float_format(self.name)


def element_type(name: str) -> ElementType:
    """Returns the element type with the MLIR name `name`. Raises ProgramError if a program cannot use the type."""
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

    The result has dtype float32, which represents the rounded values exactly. A value that exceeds the largest finite
    value becomes infinity; E4M3FN has no infinity, so there it becomes NaN, or with `saturate` the largest finite value
    of that sign. In f6 and f4, which have neither infinities nor NaNs, such a value becomes the largest finite value of
    that sign, and NaN becomes the largest value. No rule rounds to f8E8M0FNU.
    """
    fmt = to.format
    if fmt.is_scale:
        raise ProgramError(f"(V1) expected an element type that values can be rounded to, got {to.name}")
    wide = np.asarray(x, np.float64)
    # After scaling to units in the last place, every operation is exact except rint, which rounds to nearest even.
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
    """Returns whether the storage type `of` represents all of these float32 values exactly."""
    fmt = of.format
    if fmt.is_scale:
        fraction, exponent = np.frexp(x)
        powers = (fraction == 0.5) & (exponent - 1 >= fmt.min_exponent)
        return bool((np.isnan(x) | powers & np.isfinite(x)).all())
    return np.array_equal(round_to_format(x, of), x, equal_nan=True)


def to_bits(x: np.ndarray, of: ElementType) -> np.ndarray:
    """Returns the bits of each element as an unsigned integer of whole bytes; every NaN becomes canonical (V4)."""
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
        # The hidden bit of a normal value increments the exponent field in this sum; a subnormal keeps the field 0.
        bits = np.ldexp(np.abs(wide), fraction_bits - exponent).astype(np.int64) + (field << fraction_bits)
        bits |= np.signbit(wide).astype(np.int64) << (of.width - 1)
    if fmt.infinity is not None:
        signed = fmt.infinity | np.signbit(x).astype(np.int64) << (of.width - 1)
        bits = np.where(np.isinf(x), signed, bits)
    return np.where(nan, 0 if fmt.nan is None else fmt.nan, bits).astype(of.bits_dtype)


def from_bits(bits: np.ndarray, to: ElementType) -> np.ndarray:
    """Returns the values of the unsigned `bits` in the type `to`, in the representation of the reference interpreter;
    ignores bits above the type's width."""
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
    """Wraps int64 values to `width` bits (V1); returns bool for width 1, else sign-extended int64."""
    if width == 1:
        return (x & 1).astype(np.bool_)
    if width == 64:
        return x
    shift = np.int64(64 - width)
    return (x << shift) >> shift


def canonical(x: np.ndarray, of: ElementType) -> np.ndarray:
    """Returns the array with every NaN replaced by the canonical NaN (V4)."""
    if not of.is_float:
        return x
    nan = from_bits(np.array(of.format.nan_bits, of.bits_dtype), of) if of.width >= 32 else np.float32(np.nan)
    return np.where(np.isnan(x), nan, x).astype(of.dtype)
