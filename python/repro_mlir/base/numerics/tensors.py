# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors of a program as NumPy arrays.

A NumPy array holds f64, f32, f16, i8 to i64 (signed, or unsigned where the framework has them so) and i1 (as bool) as
themselves, and bf16 and the types of f8, f6 and f4 as their bits in unsigned integers, one for each element. Complex
numbers are pairs of floats in a last dimension (Z1); `user_array` gives them as complex ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS, float_format
from repro_mlir.base.printing import foreign

LONGEST_NAME = 1000
"""Characters of a tensor's name."""

_COMPLEX: dict[str, np.dtype[Any]] = {"f32": np.dtype(np.complex64), "f64": np.dtype(np.complex128)}
_UNSIGNED = {f"i{width}": np.dtype(f"uint{width}") for width in (8, 16, 32, 64)}


@dataclass(frozen=True)
class TensorType:
    """Name, element type (MLIR's name) and shape of a state tensor, an input or an output.

    ReproError for a name that a terminal would not show as it is: more than LONGEST_NAME characters, one that is not
    printable (controls, line ends, marks of direction), or two spaces in a row, and for an `unsigned` or `complex` that
    cannot be.

    Attributes:
      unsigned: whether the user's arrays have unsigned integers. A program does not know that (V1): it is no part of
        what makes types equal.
      complex: whether the user's arrays have complex numbers, whose parts are the last dimension here (Z1). A program
        does not know that either.
    """

    name: str
    element: str
    shape: tuple[int, ...]
    unsigned: bool = field(default=False, compare=False)
    complex: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if self.unsigned is not False and (self.unsigned is not True or self.element not in _UNSIGNED):
            raise ReproError(f"expected unsigned elements of {', '.join(_UNSIGNED)}, got {foreign(str(self.element))}")
        is_pair = self.element in _COMPLEX and self.shape[-1:] == (2,)
        if self.complex is not False and (self.complex is not True or not is_pair):
            raise ReproError(
                f"expected complex elements of {', '.join(_COMPLEX)} with a last dimension of 2, got "
                f"{foreign(f'{self.element} of shape {[*self.shape]}')}"
            )
        name = self.name
        if not name.isprintable() or "  " in name or len(name) > LONGEST_NAME:
            raise ReproError(
                f"expected a tensor's name of at most {LONGEST_NAME} printable characters without two spaces in a row, "
                f"got {foreign(name)}"
            )

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type that holds the elements."""
        return _UNSIGNED[self.element] if self.unsigned else ELEMENTS[self.element].dtype

    @property
    def shown_element(self) -> str:
        """The element type for people, such as `ui8`."""
        if self.complex:
            return f"complex<{self.element}>"
        return f"u{self.element}" if self.unsigned else self.element

    @property
    def shown_shape(self) -> tuple[int, ...]:
        """The shape for people: that of the user's array."""
        return self.shape[:-1] if self.complex else self.shape

    def as_json(self) -> dict[str, Any]:
        """As receipts have it: `unsigned` only where it is so."""
        described = {"name": self.name, "element": self.element, "shape": list(self.shape)}
        return described | ({"unsigned": True} if self.unsigned else {})

    def as_user_json(self) -> dict[str, Any]:
        """As files of programs and bundles have it: `complex`, too, where it is so."""
        return self.as_json() | ({"complex": True} if self.complex else {})

    @staticmethod
    def of_json(value: Mapping[str, Any]) -> TensorType:
        """What `as_json` or `as_user_json` gave. ReproError, KeyError or TypeError for what they give of none."""
        return TensorType(
            value["name"],
            value["element"],
            tuple(value["shape"]),
            value.get("unsigned", False),
            value.get("complex", False),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.name}: {'x'.join([*map(str, self.shown_shape), self.shown_element])}"


class Described(Protocol):
    """A description of a tensor: a TensorType, or that of a buffer in generated code."""

    @property
    def element(self) -> str:
        """MLIR's name of the element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""


def require_same(what: str, found: Sequence[Described], expected: Sequence[Described]) -> None:
    """ReproError unless tensors have the element types and shapes of others, in whose memory they are written.

    Args:
      what: whose they are, for the message, such as "the code for sm_90: output".
    """
    if len(found) != len(expected):
        raise ReproError(f"{what}: expected {len(expected)} tensors, got {len(found)}")
    for i, (own, wanted) in enumerate(zip(found, expected, strict=True)):
        if (own.element, tuple(own.shape)) != (wanted.element, tuple(wanted.shape)):
            raise ReproError(
                f"{what} {i}: expected {wanted.element} of shape {list(wanted.shape)}, "
                f"got {own.element} of shape {list(own.shape)}"
            )


def from_bytes(data: bytes | memoryview, kind: TensorType) -> np.ndarray:
    """The tensor whose elements are these bytes, row-major and little-endian; it cannot be written to."""
    raw = np.frombuffer(data, kind.dtype.newbyteorder("<"))
    return raw.astype(kind.dtype, copy=False).reshape(kind.shape)


def user_array(array: np.ndarray, kind: TensorType) -> np.ndarray:
    """The C-contiguous array of a program as the user has it, in the same memory: complex numbers for their pairs."""
    return array.view(_COMPLEX[kind.element])[..., 0] if kind.complex else array


def parts_of(array: np.ndarray) -> np.ndarray:
    """An array of complex numbers as pairs of their parts (Z1) in the same memory; any other array as it is."""
    return array[..., None].view(array.real.dtype) if array.dtype.kind == "c" else array


def start_of(array: np.ndarray) -> int:
    """The address of the array's first element."""
    return int(array.__array_interface__["data"][0])


def is_canonical(array: np.ndarray, element: str) -> bool:
    """Whether all bytes are those that results have: each NaN is the canonical one (V4), each i1 is 0 or 1, and of f6
    and f4 the bits above the code are zero."""
    if array.size == 0:
        return True
    most = _largest_byte(element)
    if most is not None:
        return bool(array.view(np.uint8).max() <= most)
    if ELEMENTS[element].format is None:
        return True
    if element in ("f32", "f64"):
        with np.errstate(invalid="ignore"):
            # A maximum is NaN where an element is; it takes less time than to look at bits.
            if not np.isnan(array.max()):
                return True
    return not _not_canonical(array, element).any()


def check_canonical(array: np.ndarray, kind: TensorType, where: str) -> None:
    """ReproError, naming the first element, unless `is_canonical`: files and messages have canonical bytes only."""
    if is_canonical(array, kind.element):
        return
    at = tuple(int(i) for i in np.argwhere(_not_canonical(array, kind.element))[0])
    digits, most = 2 * array.itemsize, _largest_byte(kind.element)
    if kind.element == "i1":
        expected = "0 or 1"
    else:
        expected = f"the NaN 0x{_nan_bits(kind.element):0{digits}x}" if most is None else f"0 to 0x{most:02x}"
    found = int(array.view(f"u{array.itemsize}")[at])
    raise ReproError(
        f"{where}: tensor {kind.name}: expected {expected} as element {list(at)} (V4), got 0x{found:0{digits}x}"
    )


def make_canonical(array: np.ndarray, element: str) -> None:
    """Gives an array, in place, the bytes that results have (`is_canonical`); its values stay. ValueError where it must
    be changed and cannot be written to."""
    if is_canonical(array, element):
        return
    most = _largest_byte(element)
    if element == "i1":
        array.view(np.bool_)[_not_canonical(array, element)] = True
    elif most is not None:
        array &= most
    else:
        array.view(f"u{array.itemsize}")[_not_canonical(array, element)] = _nan_bits(element)


def canonical_of(array: np.ndarray, element: str) -> np.ndarray:
    """The array, or a copy of it where its bytes are not those that results have (`is_canonical`)."""
    if not is_canonical(array, element):
        array = array.copy()
        make_canonical(array, element)
    return array


def _not_canonical(array: np.ndarray, element: str) -> np.ndarray:
    bits = array.view(f"u{array.itemsize}")
    most = _largest_byte(element)
    if most is not None:
        return bits > most
    if float_format(element).is_scale:
        # Each of its bytes has one meaning.
        return np.zeros(bits.shape, np.bool_)
    infinity, nan = (bits.dtype.type(value) for value in (ELEMENTS[element].largest_bits, _nan_bits(element)))
    return (bits & bits.dtype.type(np.iinfo(bits.dtype).max >> 1) > infinity) & (bits != nan)


def _largest_byte(element: str) -> int | None:
    """Of a type of less than 8 bits: the byte in which all of them are set."""
    width = ELEMENTS[element].width
    return (1 << width) - 1 if width < 8 else None


def _nan_bits(element: str) -> int:
    """The bits of the canonical NaN (V4)."""
    return float_format(element).nan_bits
