# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The element types of dumped tensors: how bits become numbers, and how far apart two elements are."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from repro_mlir.base.numerics.elements import ELEMENTS, BinaryFormat

# The f8 formats of AMD's CDNA 3: the bias is one more than in the OCP formats, and the code of -0 is the only NaN.
_FNUZ = (
    BinaryFormat("f8E4M3FNUZ", 4, 3, 8, 0x7F, nan=0x80),
    BinaryFormat("f8E5M2FNUZ", 5, 2, 16, 0x7F, nan=0x80),
)
_POWERS = np.uint64(1) << np.arange(64, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class ElementKind:
    """An element type of a file.

    Attributes:
      name: the name in reports, which is the MLIR name where MLIR has the type; "bits16" for unknown types.
      width: the number of bits of an element in a file; less than 8 if a byte contains parts of several elements.
      format: the binary format of a float; None for other types.
      is_signed: whether an integer is signed.
      is_number: whether the bits of the type have a known meaning.
    """

    name: str
    width: int
    format: BinaryFormat | None = None
    is_signed: bool = False
    is_number: bool = True

    @property
    def itemsize(self) -> int:
        """The number of bytes of an element in memory."""
        return max(1, self.width // 8)

    @property
    def bits_dtype(self) -> np.dtype:
        """The unsigned NumPy type that contains the bits of an element."""
        return np.dtype(f"u{self.itemsize}")

    def nans(self, bits: np.ndarray) -> np.ndarray:
        """Returns which elements are NaNs, as booleans."""
        form = self.format
        if form is None or form.nan is None:
            return np.zeros(bits.shape, np.bool_)
        if form.nan == form.sign:
            return bits == bits.dtype.type(form.nan)
        largest = form.largest if form.infinity is None else form.infinity
        return self._magnitudes(bits) > bits.dtype.type(largest)

    def distances(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Returns the distances of elements that are not NaNs as uint64: for floats in ulps, which is the difference of
        their positions in the ascending order of all values (-0 and +0 have the same position), for integers the
        absolute difference."""
        if self.format is None:
            if not self.is_signed:
                low, high = np.minimum(first, second), np.maximum(first, second)
                return (high - low).astype(np.uint64)
            signed = [bits.view(f"i{self.itemsize}").astype(np.int64) for bits in (first, second)]
            low, high = np.minimum(*signed), np.maximum(*signed)
            # The difference of two int64 may exceed 2^63, so that it is computed modulo 2^64.
            return high.astype(np.uint64) - low.astype(np.uint64)
        a, b = (self._magnitudes(bits).astype(np.uint64) for bits in (first, second))
        sign = first.dtype.type(self.format.sign)
        same = (first & sign) == (second & sign)
        return np.where(same, np.maximum(a, b) - np.minimum(a, b), a + b)

    def numbers(self, bits: np.ndarray) -> np.ndarray:
        """Returns the values of elements as float64, which is exact for all types but 64-bit integers."""
        if self.format is None:
            return (bits.view(f"i{self.itemsize}") if self.is_signed else bits).astype(np.float64)
        if self.width >= 32:
            return bits.view(f"f{self.itemsize}").astype(np.float64)
        return _table(self.format)[bits]

    def shown(self, bits: np.ndarray) -> str:
        """Returns the value of one element, an array of shape (1,), as the shortest decimal text."""
        if not self.is_number:
            return ""
        if self.format is None:
            number = int(bits.view(f"i{self.itemsize}")[0] if self.is_signed else bits[0])
            return str(bool(number)) if self.width == 1 or self.name == "i1" else str(number)
        value = self.numbers(bits)[0]
        return str(value if self.width == 64 else np.float32(value))

    def _magnitudes(self, bits: np.ndarray) -> np.ndarray:
        assert self.format is not None
        return bits if self.format.is_scale else bits & bits.dtype.type(self.format.sign - 1)


def bit_lengths(distances: np.ndarray) -> np.ndarray:
    """Returns the number of binary digits of each uint64, from 0 to 64."""
    return np.searchsorted(_POWERS, distances, side="right")


@functools.cache
def _table(form: BinaryFormat) -> np.ndarray:
    """Returns the value of each code of a format of at most 16 bits, as float64."""
    codes = np.arange(1 << form.width)
    if form.is_scale:
        found = np.ldexp(1.0, codes + form.min_exponent)
    else:
        magnitude = codes & (form.sign - 1)
        field, fraction = magnitude >> form.fraction_bits, magnitude & ((1 << form.fraction_bits) - 1)
        significand = np.where(field == 0, fraction, fraction + (1 << form.fraction_bits)).astype(np.float64)
        found = np.ldexp(significand, np.maximum(field, 1) - 1 + form.least_place)
        if form.infinity is not None:
            found[magnitude == form.infinity] = np.inf
        found = np.where(codes & form.sign != 0, -found, found)
    kind = ElementKind(form.name, form.width, form)
    found[kind.nans(codes.astype(kind.bits_dtype))] = np.nan
    return found


def _all_kinds() -> dict[str, ElementKind]:
    kinds = [
        ElementKind(
            each.name, 8 if each.name == "i1" else each.width, each.format, each.format is None and each.width > 1
        )
        for each in ELEMENTS.values()
    ]
    kinds += [ElementKind(f"ui{width}", width) for width in (8, 16, 32, 64)]
    kinds += [ElementKind(form.name, form.width, form) for form in _FNUZ]
    found = {kind.name: kind for kind in kinds}
    return found | {f"complex<{name}>": replace(found[name], name=f"complex<{name}>") for name in ("f16", "f32", "f64")}


KINDS = _all_kinds()
"""The known element types by name. An element of a complex type is one of the two parts of a complex number: tensors
of this type have an additional last dimension of extent 2."""


def bits_kind(size: int) -> ElementKind:
    """Returns the type of elements of 1, 2, 4 or 8 bytes whose meaning is unknown."""
    return ElementKind(f"bits{8 * size}", 8 * size, is_number=False)
