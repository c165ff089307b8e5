# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The element types of tensors (V1), in one table from which all type-dependent properties derive."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class BinaryFormat:
    """(Q1) A binary format of sign, exponent field and fraction field; a code is the bits of a value as an unsigned
    integer.

    Attributes:
      name: the MLIR name, if MLIR has the type.
      exponent_bits: the width of the exponent field.
      fraction_bits: the width of the fraction field.
      bias: the bias of the exponent field of a normal value.
      largest: the code of the largest finite value.
      infinity: the code of +infinity; None if the format has no infinities.
      nan: the code of the canonical NaN (V4); None if the format has no NaNs.
      is_scale: whether the format has neither a sign nor a zero, so that a code, even 0, is an exponent field.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    bias: int
    largest: int
    infinity: int | None = None
    nan: int | None = None
    is_scale: bool = False

    @property
    def width(self) -> int:
        """The number of bits in a code."""
        return (not self.is_scale) + self.exponent_bits + self.fraction_bits

    @property
    def sign(self) -> int:
        """The mask of the sign bit; 0 if the format has no sign."""
        return 0 if self.is_scale else 1 << (self.width - 1)

    @property
    def precision(self) -> int:
        """The number of bits in a significand, including the hidden bit."""
        return self.fraction_bits + 1

    @property
    def min_exponent(self) -> int:
        """The exponent of the smallest normal value."""
        return (not self.is_scale) - self.bias

    @property
    def least_place(self) -> int:
        """The exponent of the smallest positive value; all finite values are multiples of that value."""
        return self.min_exponent - self.fraction_bits

    @property
    def largest_integer(self) -> int:
        """The largest finite value in units of 2^least_place."""
        field, fraction = divmod(self.largest, 1 << self.fraction_bits)
        return (fraction + (1 << self.fraction_bits)) << (field - (not self.is_scale))

    @property
    def max_exponent(self) -> int:
        """floor(log2) of the largest finite value, called emax in the OCP specification."""
        return self.largest_integer.bit_length() - 1 + self.least_place

    @cached_property
    def max_finite(self) -> float:
        """The largest finite value."""
        return float(Fraction(self.largest_integer) * Fraction(2) ** self.least_place)

    @property
    def has_infinity(self) -> bool:
        """Whether the format has infinities."""
        return self.infinity is not None

    @property
    def nan_bits(self) -> int:
        """The code of the canonical NaN; the format must have NaNs."""
        assert self.nan is not None
        return self.nan


@dataclass(frozen=True)
class Element:
    """An element type.

    Attributes:
      name: the MLIR name.
      width: the number of bits of a value; a value of less than 8 bits occupies the low bits of a byte in memory.
      numpy: the name of the NumPy type in which tensors of a program are stored.
      library: the name of the type in PyTorch and ml_dtypes.
      safetensors: the name in a safetensors file.
      dlpack: the type code and the number of bits in dlpack.h, which has floats of 8 bits or less since version 1.1.
      format: the binary format of a float; None for an integer.
    """

    name: str
    width: int
    numpy: str
    library: str
    safetensors: str
    dlpack: tuple[int, int]
    format: BinaryFormat | None = None

    @cached_property
    def dtype(self) -> np.dtype:
        """The NumPy type in which tensors of a program are stored."""
        return np.dtype(self.numpy)

    @cached_property
    def is_bits(self) -> bool:
        """Whether NumPy lacks the type, so that its bits are stored as unsigned integers."""
        return self.numpy != self.library

    @property
    def largest_bits(self) -> int:
        """The bits of +infinity, or of the largest finite value if the type has no infinity. The type must be a
        float."""
        assert self.format is not None
        return self.format.largest if self.format.infinity is None else self.format.infinity


# Type codes from dlpack.h.
_INT, _FLOAT, _BFLOAT, _BOOL, _E4M3FN, _E5M2, _E8M0FNU, _E2M3FN, _E3M2FN, _E2M1FN = 0, 2, 4, 6, 10, 12, 14, 15, 16, 17

ELEMENTS = {
    element.name: element
    for element in (
        Element(
            "f64", 64, "float64", "float64", "F64", (_FLOAT, 64),
            BinaryFormat("f64", 11, 52, 1023, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF8000000000000),
        ),
        Element(
            "f32", 32, "float32", "float32", "F32", (_FLOAT, 32),
            BinaryFormat("f32", 8, 23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FC00000),
        ),
        Element(
            "f16", 16, "float16", "float16", "F16", (_FLOAT, 16),
            BinaryFormat("f16", 5, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
        ),
        Element(
            "bf16", 16, "uint16", "bfloat16", "BF16", (_BFLOAT, 16),
            BinaryFormat("bf16", 8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
        ),
        Element(
            "f8E4M3FN", 8, "uint8", "float8_e4m3fn", "F8_E4M3", (_E4M3FN, 8),
            BinaryFormat("f8E4M3FN", 4, 3, 7, 0x7E, nan=0x7F),
        ),
        Element(
            "f8E5M2", 8, "uint8", "float8_e5m2", "F8_E5M2", (_E5M2, 8),
            BinaryFormat("f8E5M2", 5, 2, 15, 0x7B, 0x7C, 0x7E),
        ),
        Element(
            "f6E3M2FN", 6, "uint8", "float6_e3m2fn", "F6_E3M2", (_E3M2FN, 6),
            BinaryFormat("f6E3M2FN", 3, 2, 3, 0x1F),
        ),
        Element(
            "f6E2M3FN", 6, "uint8", "float6_e2m3fn", "F6_E2M3", (_E2M3FN, 6),
            BinaryFormat("f6E2M3FN", 2, 3, 1, 0x1F),
        ),
        Element(
            "f4E2M1FN", 4, "uint8", "float4_e2m1fn", "F4", (_E2M1FN, 4),
            BinaryFormat("f4E2M1FN", 2, 1, 1, 0x7),
        ),
        Element(
            "f8E8M0FNU", 8, "uint8", "float8_e8m0fnu", "F8_E8M0", (_E8M0FNU, 8),
            BinaryFormat("f8E8M0FNU", 8, 0, 127, 0xFE, nan=0xFF, is_scale=True),
        ),
        Element("i64", 64, "int64", "int64", "I64", (_INT, 64)),
        Element("i32", 32, "int32", "int32", "I32", (_INT, 32)),
        Element("i16", 16, "int16", "int16", "I16", (_INT, 16)),
        Element("i8", 8, "int8", "int8", "I8", (_INT, 8)),
        Element("i1", 1, "bool", "bool", "BOOL", (_BOOL, 8)),
    )
}  # fmt: skip
"""The element types of tensors of a program, by MLIR name. Scalars may also have the type index."""


def float_format(name: str) -> BinaryFormat:
    """Returns the binary format of a float element type, by MLIR name."""
    found = ELEMENTS[name].format
    assert found is not None
    return found
