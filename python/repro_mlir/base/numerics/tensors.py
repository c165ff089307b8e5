# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors of a program as NumPy arrays.

A NumPy array stores f64, f32, f16, i8 to i64 (signed, or unsigned if the framework's type is) and i1 (as bool) with the
corresponding NumPy type, and bf16, f8, f6 and f4 types as bits in unsigned integers, one per element. Complex numbers
are pairs of floats in an additional last dimension (Z1); `user_array` converts them to complex numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS, float_format
from repro_mlir.base.printing import foreign

LONGEST_NAME = 1000
"""The maximum number of characters in a tensor's name."""

_COMPLEX: dict[str, np.dtype[Any]] = {"f32": np.dtype(np.complex64), "f64": np.dtype(np.complex128)}
_UNSIGNED = {f"i{width}": np.dtype(f"uint{width}") for width in (8, 16, 32, 64)}


@dataclass(frozen=True)
class TensorType:
    """The name, element type and shape of a state tensor, an input or an output.

    Attributes:
      name: the name, at most LONGEST_NAME characters.
      element: the MLIR name of the element type.
      shape: the shape in a program.
      unsigned: whether the user's arrays have unsigned integers. A program does not represent this property (V1), so
        it does not affect equality.
      complex: whether the user's arrays have complex numbers, whose parts are the last dimension of `shape` (Z1). This
        property does not affect equality either.
    Raises:
      ReproError: a terminal would not show the name literally, because it is too long, contains unprintable characters
        (control characters, line ends, direction marks) or has two spaces in a row; or `unsigned` or `complex` does not
        match the element type and shape.
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
        """The NumPy type of the elements."""
        return _UNSIGNED[self.element] if self.unsigned else ELEMENTS[self.element].dtype

    @property
    def shown_element(self) -> str:
        """The element type as shown to users, such as `ui8`."""
        if self.complex:
            return f"complex<{self.element}>"
        return f"u{self.element}" if self.unsigned else self.element

    @property
    def shown_shape(self) -> tuple[int, ...]:
        """The shape as shown to users, which is that of the user's array."""
        return self.shape[:-1] if self.complex else self.shape

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON object for receipts; the key `unsigned` is present only if true."""
        described = {"name": self.name, "element": self.element, "shape": list(self.shape)}
        return described | ({"unsigned": True} if self.unsigned else {})

    def as_user_json(self) -> dict[str, Any]:
        """Returns the JSON object for program files and bundles; also has the key `complex` if true."""
        return self.as_json() | ({"complex": True} if self.complex else {})

    @staticmethod
    def of_json(value: Mapping[str, Any]) -> TensorType:
        """Returns the type that `as_json` or `as_user_json` has converted to this JSON object.

        Raises:
          ReproError, KeyError, TypeError: the object is not one that these methods return.
        """
        return TensorType(
            value["name"],
            value["element"],
            tuple(value["shape"]),
            value.get("unsigned", False),
            value.get("complex", False),
        )

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def empty(self) -> np.ndarray:
        """Returns a new array whose values are undefined."""
        return np.empty(self.shape, self.dtype)

    def __str__(self) -> str:
        return f"{self.name}: {'x'.join([*map(str, self.shown_shape), self.shown_element])}"


def require_count(kinds: Sequence[TensorType], inputs: Sequence[object]) -> None:
    """Raises ReproError unless there is one value for each of these inputs."""
    if len(inputs) != len(kinds):
        raise ReproError(f"expected {len(kinds)} inputs ({', '.join(map(str, kinds))}), got {len(inputs)}")


def require_same(what: str, found: Sequence[TensorType], expected: Sequence[TensorType]) -> None:
    """Raises ReproError unless the `found` tensors have the element types and shapes of the `expected` ones, because
    the `found` tensors will use the buffers of the `expected` ones.

    Args:
      what: names the tensors in the message, such as "the code for sm_90: output".
      found: the tensors to check.
      expected: the tensors to compare with.
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
    """Returns a read-only tensor whose elements are these bytes, row-major and little-endian."""
    raw = np.frombuffer(data, kind.dtype.newbyteorder("<"))
    return raw.astype(kind.dtype, copy=False).reshape(kind.shape)


def user_array(array: np.ndarray, kind: TensorType) -> np.ndarray:
    """Returns the user's view of a C-contiguous array of a program: pairs of parts become complex numbers."""
    return array.view(_COMPLEX[kind.element])[..., 0] if kind.complex else array


def parts_of(array: np.ndarray) -> np.ndarray:
    """Returns a view of a complex array as pairs of parts (Z1); returns any other array unchanged."""
    return array[..., None].view(array.real.dtype) if array.dtype.kind == "c" else array


def start_of(array: np.ndarray) -> int:
    """Returns the address of the array's first element."""
    return int(array.__array_interface__["data"][0])


def is_canonical(array: np.ndarray, element: str) -> bool:
    """Returns whether the array has canonical bytes: each NaN is the canonical NaN (V4), each i1 is 0 or 1, and in f6
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
            # The maximum is NaN if any element is NaN. This check is faster than a comparison of bits.
            if not np.isnan(array.max()):
                return True
    return not _not_canonical(array, element).any()


def check_canonical(array: np.ndarray, kind: TensorType, where: str) -> None:
    """Raises ReproError, which names the first offending element, unless the array is canonical (`is_canonical`). Used
    for data from files and messages."""
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
    """Makes the bytes of an array canonical in place (`is_canonical`). The elements keep their values.

    Raises:
      ValueError: the array is not canonical and is read-only.
    """
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
    """Returns the array if it is canonical (`is_canonical`), else a canonical copy."""
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
        # Every byte of a scale type is canonical.
        return np.zeros(bits.shape, np.bool_)
    infinity, nan = (bits.dtype.type(value) for value in (ELEMENTS[element].largest_bits, _nan_bits(element)))
    return (bits & bits.dtype.type(np.iinfo(bits.dtype).max >> 1) > infinity) & (bits != nan)


def _largest_byte(element: str) -> int | None:
    """Returns the largest valid byte of a type of less than 8 bits; None for any other type."""
    width = ELEMENTS[element].width
    return (1 << width) - 1 if width < 8 else None


def _nan_bits(element: str) -> int:
    return float_format(element).nan_bits
