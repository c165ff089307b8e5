# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Element types and arrays of frameworks whose functions are captured as StableHLO."""

from __future__ import annotations

from typing import Any

import numpy as np

from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.frontends.stablehlo.errors import CaptureError

_ELEMENTS = {element.library: element.name for element in ELEMENTS.values()}
# Integer types in a program are signless (V1); the operations are signed or unsigned.
_ELEMENTS |= {f"uint{width}": f"i{width}" for width in (8, 16, 32, 64)}


def element_of(dtype: np.dtype[Any], what: str) -> str:
    """Returns MLIR's name of an element type. Raises CaptureError for a type that programs do not support."""
    if dtype.name not in _ELEMENTS:
        raise CaptureError(f"{what} has elements of {dtype.name}, which programs do not support")
    return _ELEMENTS[dtype.name]


def array_type_of(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> TensorType:
    """Returns the tensor type for a name, dtype and shape. Raises CaptureError as `element_of` does."""
    return TensorType(name, element_of(dtype, name), shape, dtype.kind == "u")


def checked(array: np.ndarray, kind: TensorType) -> np.ndarray:
    """Converts a framework's array to the type `kind`. Raises CaptureError if it has another shape or element type."""
    found = array_type_of(kind.name, array.dtype, array.shape)
    if found != kind or found.unsigned != kind.unsigned:
        raise CaptureError(
            f"{kind.name} has shape {list(array.shape)} of {array.dtype.name}, expected {list(kind.shape)} of "
            f"{kind.shown_element}"
        )
    return array.view(kind.dtype)
