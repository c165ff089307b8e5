# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The user's arrays as tensors of a program: NumPy's, a framework's on the CPU, and what else has DLPack; no copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.tensors import TensorType, parts_of, user_array
from repro_mlir.base.tensors.frameworks import TensorModule, tensor_module_of


def as_array(value: Any, kind: TensorType, what: str) -> np.ndarray:
    """The user's array as a NumPy array of `kind` that shares its memory; it need not be contiguous.

    Args:
      value: a NumPy array, a tensor of a framework, an object with DLPack or, for shape [], a Python number. Of a
        complex kind, complex numbers or the pairs of their parts (Z1).
      kind: the expected shape and element type.
      what: what the value is, for the message: "state" or "input".
    Raises:
      ReproError: another shape, element type or device than expected, or no array at all.
    """
    if isinstance(value, bool | int | float | complex) and not kind.shown_shape:
        return _number(value, kind, what)
    array = _shared(value, kind, what)
    if kind.complex:
        given, array = array, parts_of(array)
        if (array.dtype, array.shape) != (kind.dtype, kind.shape):
            raise ReproError(
                f"{what} {kind.name}: expected {kind.shown_element} of shape {list(kind.shown_shape)}, or the parts, "
                f"{kind.element} of shape {list(kind.shape)}; got {given.dtype} of shape {list(given.shape)}"
            )
        return array
    if array.dtype != kind.dtype:
        raise ReproError(
            f"{what} {kind.name}: expected elements of {kind.shown_element} ({kind.dtype}), got {array.dtype}"
        )
    if array.shape != kind.shape:
        raise ReproError(f"{what} {kind.name}: expected shape {list(kind.shape)}, got {list(array.shape)}")
    return array


def as_given(array: np.ndarray, kind: TensorType, framework: TensorModule | None) -> Any:
    """The C-contiguous array of a program as the user gets it, in the same memory: a tensor of the framework, else a
    NumPy array; complex where the kind is."""
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
        raise ReproError(f"{what} {kind.name}: {value!r} does not fit {kind.shown_element}") from None


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
