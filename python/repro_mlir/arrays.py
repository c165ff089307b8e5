# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors of a program as NumPy arrays, and the user's arrays as these.

A NumPy array holds f64, f32, f16, i8 to i64 and i1 (as bool) as themselves and bf16, f8E4M3FN and f8E5M2 as their bits
in unsigned integers. NumPy arrays, torch tensors on the CPU and whatever else has DLPack pass without a copy.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ReproError
from .printing import foreign

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

_TORCH = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i1": "bool",
}
# Types that NumPy has no name for: their bits stand for them.
_AS_BITS = {"bf16", "f8E4M3FN", "f8E5M2"}


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

    def __str__(self) -> str:
        return f"{self.name}: {'x'.join([*map(str, self.shape), self.element])}"


def element_of_torch(dtype: Any) -> str:
    """MLIR's name of a torch element type. ReproError for one that programs cannot hold."""
    name = str(dtype).removeprefix("torch.")
    for element, candidate in _TORCH.items():
        if candidate == name:
            return element
    raise ReproError(f"expected one of the element types {', '.join(_TORCH.values())}, got {name}")


def is_torch(value: object) -> bool:
    """Whether the value is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_torch(array: np.ndarray, element: str) -> Any:
    """A torch tensor of the array's memory."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(getattr(torch, _TORCH[element])) if element in _AS_BITS else tensor


def as_array(value: Any, kind: TensorType, what: str) -> np.ndarray:
    """The user's array as a NumPy array of `kind` that shares its memory; it need not be contiguous.

    Args:
      value: a NumPy array, a torch tensor, an object with DLPack or, for shape [], a Python number.
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
    if is_torch(value):
        if value.device.type != "cpu":
            raise ReproError(f"{what} {kind.name}: expected a tensor on the CPU, got one on {value.device}")
        element = element_of_torch(value.dtype)
        if element != kind.element:
            raise ReproError(f"{what} {kind.name}: expected elements of {kind.element}, got {element}")
        value = value.detach()
        if element in _AS_BITS:
            import torch

            value = value.view(torch.uint16 if kind.dtype.itemsize == 2 else torch.uint8)
        array: np.ndarray = value.numpy()
        return array
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ReproError(f"{what} {kind.name}: cannot share memory by DLPack: {error}") from None
    raise ReproError(f"{what} {kind.name}: expected an array, got a {type(value).__name__}")
