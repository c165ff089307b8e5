# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Views the user's arrays (NumPy arrays, CPU tensors of frameworks, DLPack objects) as program tensors; no copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.tensors import TensorType, parts_of, user_array
from repro_mlir.base.tensors.frameworks import TensorModule, tensor_module_of


def as_array(value: Any, kind: TensorType, what: str) -> np.ndarray:
    """Returns the user's array as a NumPy array of type `kind`, which shares its memory and may be non-contiguous.

    Args:
      value: a NumPy array, a tensor of a framework, a DLPack object or, for shape [], a Python number. If `kind` is
        complex, the elements are complex numbers or the pairs of their parts (Z1).
      kind: the expected shape and element type.
      what: the role of the value for the message: "state" or "input".
    Raises:
      ReproError: the value is not an array, or its shape, element type or device differs from the expected one.
    """
    if isinstance(value, bool | int | float | complex) and not kind.shown_shape:
        return _number(value, kind, what)
    array = _shared(value, kind, what)
    if kind.complex:
        given, array = array, parts_of(array)
        if (array.dtype, array.shape) != (kind.dtype, kind.shape):
            raise ReproError(
                f"{what} {kind.name}: expected {kind.shown_element} of shape {list(kind.shown_shape)}, "
                f"or its real and imaginary parts, {kind.element} of shape {list(kind.shape)}; "
                f"got {given.dtype} of shape {list(given.shape)}"
            )
        return array
    if array.dtype != kind.dtype:
        raise ReproError(
            f"{what} {kind.name}: expected elements of {kind.shown_element} ({kind.dtype}), got {array.dtype}"
        )
    if array.shape != kind.shape:
        raise ReproError(f"{what} {kind.name}: expected shape {list(kind.shape)}, got {list(array.shape)}")
    return array


def as_arrays(values: Sequence[Any], kinds: Sequence[TensorType], what: str) -> list[np.ndarray]:
    """Applies `as_array` to each value with its type; there must be as many types as values."""
    return [as_array(value, kind, what) for value, kind in zip(values, kinds, strict=True)]


def as_given(array: np.ndarray, kind: TensorType, framework: TensorModule | None) -> Any:
    """Returns `array`, a C-contiguous array of a program, as the user receives it: a tensor of `framework`, or a NumPy
    array if `framework` is None. It shares the memory of `array`, and is complex if `kind` is."""
    return user_array(array, kind) if framework is None else framework.to_tensor(array, kind)


@float_environment()
def _number(value: bool | int | float | complex, kind: TensorType, what: str) -> np.ndarray:
    wanted = kind.dtype.kind
    if (
        ELEMENTS[kind.element].is_bits
        or (wanted == "b") != isinstance(value, bool)
        or (wanted in "iu" and isinstance(value, float) and not value.is_integer())
        or (isinstance(value, complex) and not kind.complex)
    ):
        raise ReproError(f"{what} {kind.name}: expected elements of {kind.shown_element}, got the number {value!r}")
    try:
        return np.array([value.real, value.imag] if kind.complex else value, kind.dtype)
    except OverflowError:
        raise ReproError(f"{what} {kind.name}: expected a value of {kind.shown_element}, got {value!r}") from None


def _shared(value: Any, kind: TensorType, what: str) -> np.ndarray:
    if isinstance(value, np.generic):
        value = np.asarray(value)
    framework = tensor_module_of(value)
    if framework is not None:
        return framework.share(value, kind, what)
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ReproError(f"{what} {kind.name}: cannot share memory by DLPack: {error}") from None
    raise ReproError(f"{what} {kind.name}: expected an array, got a {type(value).__name__}")
