# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The element types of tensors (V1): one table, of which everything else that depends on the type is read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format: `precision` counts the hidden bit."""

    precision: int
    min_exponent: int
    max_finite: float
    nan_bits: int
    has_infinity: bool = True


@dataclass(frozen=True)
class Element:
    """An element type.

    Attributes:
      name: MLIR's name.
      width: bits of a value; an i1 takes a byte in memory.
      numpy: NumPy's name of the type whose memory is that of a tensor of a program.
      library: the name that PyTorch and ml_dtypes have for the type.
      safetensors: the name in a safetensors file.
      dlpack: code and bits in dlpack.h; the types of f8 are numbered from version 1.1 on.
      format: of a float; None for an integer.
    """

    name: str
    width: int
    numpy: str
    library: str
    safetensors: str
    dlpack: tuple[int, int]
    format: FloatFormat | None = None

    @cached_property
    def dtype(self) -> np.dtype:
        """The NumPy type that holds a tensor of a program."""
        return np.dtype(self.numpy)

    @cached_property
    def is_bits(self) -> bool:
        """Whether NumPy has no name for the type, so that its bits stand for it."""
        return self.numpy != self.library

    @property
    def largest_bits(self) -> int:
        """Of a float: the bits of the greatest magnitude that is no NaN."""
        assert self.format is not None
        if not self.format.has_infinity:
            return self.format.nan_bits - 1
        fraction = self.format.precision - 1
        return ((1 << (self.width - 1)) - 1) >> fraction << fraction


# Of dlpack.h.
_INT, _FLOAT, _BFLOAT, _BOOL, _E4M3FN, _E5M2 = 0, 2, 4, 6, 10, 12

ELEMENTS = {
    element.name: element
    for element in (
        Element(
            "f64", 64, "float64", "float64", "F64", (_FLOAT, 64),
            FloatFormat(53, -1022, float(np.finfo(np.float64).max), 0x7FF8000000000000),
        ),
        Element(
            "f32", 32, "float32", "float32", "F32", (_FLOAT, 32),
            FloatFormat(24, -126, float(np.finfo(np.float32).max), 0x7FC00000),
        ),
        Element("f16", 16, "float16", "float16", "F16", (_FLOAT, 16), FloatFormat(11, -14, 65504.0, 0x7E00)),
        Element(
            "bf16", 16, "uint16", "bfloat16", "BF16", (_BFLOAT, 16),
            FloatFormat(8, -126, float.fromhex("0x1.fep127"), 0x7FC0),
        ),
        Element(
            "f8E4M3FN", 8, "uint8", "float8_e4m3fn", "F8_E4M3", (_E4M3FN, 8),
            FloatFormat(4, -6, 448.0, 0x7F, has_infinity=False),
        ),
        Element("f8E5M2", 8, "uint8", "float8_e5m2", "F8_E5M2", (_E5M2, 8), FloatFormat(3, -14, 57344.0, 0x7E)),
        Element("i64", 64, "int64", "int64", "I64", (_INT, 64)),
        Element("i32", 32, "int32", "int32", "I32", (_INT, 32)),
        Element("i16", 16, "int16", "int16", "I16", (_INT, 16)),
        Element("i8", 8, "int8", "int8", "I8", (_INT, 8)),
        Element("i1", 1, "bool", "bool", "BOOL", (_BOOL, 8)),
    )
}  # fmt: skip
"""The element types that tensors of a program have, by MLIR's name. Scalars have the type index, too."""
