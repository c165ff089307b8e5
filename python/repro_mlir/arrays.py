# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors of a program as NumPy arrays, and the user's arrays as these.

A NumPy array holds f64, f32, f16, i8 to i64 and i1 (as bool) as themselves and bf16, f8E4M3FN and f8E5M2 as their bits
in unsigned integers. NumPy arrays, a framework's tensors on the CPU (frontends/tensors.py) and whatever else has DLPack
pass without a copy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ReproError
from .frontends.tensors import module_of
from .printing import foreign
from .reference.environment import float_environment

_DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "uint16",
    "f8E4M3FN": "uint8",
    "f8E5M2": "uint8",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i1": "bool",
}
ELEMENTS = tuple(_DTYPES)
"""MLIR's names of the element types that tensors of a program have."""

# Types that NumPy has no name for: their bits stand for them.
_AS_BITS = {"bf16", "f8E4M3FN", "f8E5M2"}
# The greatest magnitude that is no NaN, and the canonical NaN (V4), as bits.
_NANS = {
    "f64": (0x7FF0000000000000, 0x7FF8000000000000),
    "f32": (0x7F800000, 0x7FC00000),
    "f16": (0x7C00, 0x7E00),
    "bf16": (0x7F80, 0x7FC0),
    "f8E4M3FN": (0x7E, 0x7F),
    "f8E5M2": (0x7C, 0x7E),
}


LONGEST_NAME = 1000
"""Characters of a tensor's name."""


@dataclass(frozen=True)
class TensorType:
    """Name, element type (MLIR's name) and shape of a state tensor, an input or an output.

    ReproError for a name that a terminal would not show as it is: more than LONGEST_NAME characters, one that is not
    printable (controls, line ends, marks of direction), or two spaces in a row.
    """

    name: str
    element: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        name = self.name
        if not name.isprintable() or "  " in name or len(name) > LONGEST_NAME:
            raise ReproError(
                f"expected a tensor's name of at most {LONGEST_NAME} printable characters without two spaces in a row, "
                f"got {foreign(name)}"
            )

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type that holds the elements."""
        return np.dtype(_DTYPES[self.element])

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.name}: {'x'.join([*map(str, self.shape), self.element])}"


def from_bytes(data: bytes | memoryview, kind: TensorType) -> np.ndarray:
    """The tensor whose elements are these bytes, row-major and little-endian; it cannot be written to."""
    raw = np.frombuffer(data, kind.dtype.newbyteorder("<"))
    return raw.astype(kind.dtype, copy=False).reshape(kind.shape)


def is_canonical(array: np.ndarray, element: str) -> bool:
    """Whether all bytes are those that results have: each NaN is the canonical one (V4), each i1 is 0 or 1."""
    if element == "i1":
        return array.size == 0 or bool(array.view(np.uint8).max() <= 1)
    if element not in _NANS or array.size == 0:
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
    digits = 2 * array.itemsize
    expected = "0 or 1" if kind.element == "i1" else f"the NaN 0x{_NANS[kind.element][1]:0{digits}x}"
    found = int(array.view(f"u{array.itemsize}")[at])
    raise ReproError(
        f"{where}: tensor {kind.name}: expected {expected} as element {list(at)} (V4), got 0x{found:0{digits}x}"
    )


def make_canonical(array: np.ndarray, element: str) -> None:
    """Gives an array, in place, the bytes that results have (`is_canonical`); its values stay. ValueError where it must
    be changed and cannot be written to."""
    if not is_canonical(array, element):
        canonical = True if element == "i1" else _NANS[element][1]
        array.view(np.bool_ if element == "i1" else f"u{array.itemsize}")[_not_canonical(array, element)] = canonical


def _not_canonical(array: np.ndarray, element: str) -> np.ndarray:
    bits = array.view(f"u{array.itemsize}")
    if element == "i1":
        return bits > 1
    infinity, nan = (bits.dtype.type(value) for value in _NANS[element])
    return (bits & bits.dtype.type(np.iinfo(bits.dtype).max >> 1) > infinity) & (bits != nan)


def as_array(value: Any, kind: TensorType, what: str) -> np.ndarray:
    """The user's array as a NumPy array of `kind` that shares its memory; it need not be contiguous.

    Args:
      value: a NumPy array, a tensor of a framework, an object with DLPack or, for shape [], a Python number.
      kind: the expected shape and element type.
      what: what the value is, for the message: "state" or "input".
    Raises:
      ReproError: another shape, element type or device than expected, or no array at all.
    """
    if isinstance(value, bool | int | float) and not kind.shape:
        return _number(value, kind, what)
    array = _shared(value, kind, what)
    if array.dtype != kind.dtype:
        raise ReproError(f"{what} {kind.name}: expected elements of {kind.element} ({kind.dtype}), got {array.dtype}")
    if array.shape != kind.shape:
        raise ReproError(f"{what} {kind.name}: expected shape {list(kind.shape)}, got {list(array.shape)}")
    return array


@float_environment()
def _number(value: bool | int | float, kind: TensorType, what: str) -> np.ndarray:
    wanted = kind.dtype.kind
    if (
        kind.element in _AS_BITS
        or (wanted == "b") != isinstance(value, bool)
        or (wanted == "i" and value != int(value))
    ):
        raise ReproError(f"{what} {kind.name}: expected elements of {kind.element}, got the number {value!r}")
    try:
        return np.array(value, kind.dtype)
    except OverflowError:
        raise ReproError(f"{what} {kind.name}: {value!r} does not fit {kind.element}") from None


def _shared(value: Any, kind: TensorType, what: str) -> np.ndarray:
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        # ml_dtypes, for instance, has a bfloat16 of its own.
        foreign = {"bfloat16": "bf16", "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2"}.get(value.dtype.name)
        return value.view(kind.dtype) if foreign is not None and foreign == kind.element else value
    framework = module_of(value)
    if framework is not None:
        return framework.share(value, kind, what)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ReproError(f"{what} {kind.name}: cannot share memory by DLPack: {error}") from None
    raise ReproError(f"{what} {kind.name}: expected an array, got a {type(value).__name__}")
