# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Conversion of arrays with ml_dtypes element types, and of JAX arrays, which use these types, to the bits of a program
and back; implements `base.tensors.frameworks.TensorModule`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType, user_array

_CPU = 1
"""The DLPack device type of CPU memory (kDLCPU)."""


def is_tensor(value: object) -> bool:
    """Returns whether a value is an array of JAX or has an element type of ml_dtypes."""
    kind = getattr(getattr(value, "dtype", None), "type", None)
    return getattr(kind, "__module__", None) == ml_dtypes.__name__ or _is_jax(value)


def _is_jax(value: object) -> bool:
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(value, "__dlpack_device__")


def share(tensor: Any, kind: TensorType, what: str) -> np.ndarray:
    """Returns the array as a NumPy array that shares its memory; see `TensorModule.share`."""
    element = ELEMENTS[kind.element]
    try:
        if _is_jax(tensor):
            if tensor.__dlpack_device__()[0] != _CPU:
                raise ReproError(f"{what} {kind.name}: expected an array in CPU memory")
            # NumPy's DLPack import does not support the ml_dtypes types.
            is_named = tensor.dtype.type.__module__ == np.__name__
            tensor = np.from_dlpack(tensor) if is_named else np.asarray(tensor)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ReproError(f"{what} {kind.name}: cannot share memory by DLPack: {error}") from None
    array: np.ndarray = tensor
    return array.view(kind.dtype) if element.is_bits and array.dtype.name == element.library else array


def to_tensor(array: np.ndarray, kind: TensorType) -> np.ndarray:
    """Returns an ml_dtypes or NumPy array that shares the memory of an array; see `TensorModule.to_tensor`."""
    element = ELEMENTS[kind.element]
    named = getattr(ml_dtypes, element.library, None) if element.is_bits else None
    return user_array(array, kind) if named is None else array.view(named)
