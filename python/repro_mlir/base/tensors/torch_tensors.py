# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Conversion between PyTorch tensors and NumPy arrays; implements `base.tensors.frameworks.TensorModule`."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import torch

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType, user_array

# The f8 types may be missing, because the runner copies this file to machines with an older PyTorch.
_DTYPES = {
    name: getattr(torch, element.library) for name, element in ELEMENTS.items() if hasattr(torch, element.library)
}
# Integers are signless in a program (V1), so an unsigned type has the same element type as the signed one.
_UNSIGNED = {getattr(torch, f"uint{width}"): f"i{width}" for width in (8, 16, 32, 64) if hasattr(torch, f"uint{width}")}
_ELEMENTS = {dtype: element for element, dtype in _DTYPES.items()} | _UNSIGNED


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Returns whether a value is a PyTorch tensor."""
    return isinstance(value, torch.Tensor)


_COMPLEX = {"f32": torch.complex64, "f64": torch.complex128}
_PARTS = {dtype: _DTYPES[element] for element, dtype in _COMPLEX.items()}


def element_of(dtype: torch.dtype) -> str:
    """Returns the MLIR name of an element type, or of the parts of a complex type.

    Raises:
      ReproError: a program cannot contain the type.
    """
    dtype = _PARTS.get(dtype, dtype)
    if dtype not in _ELEMENTS:
        found, known = str(dtype).removeprefix("torch."), (element.library for element in ELEMENTS.values())
        raise ReproError(f"expected one of the element types {', '.join(known)}, got {found}")
    return _ELEMENTS[dtype]


def dtype_of(kind: TensorType) -> torch.dtype:
    """Returns the PyTorch element type of a tensor."""
    if kind.complex:
        return _COMPLEX[kind.element]
    dtype: torch.dtype = getattr(torch, kind.dtype.name) if kind.unsigned else _DTYPES[kind.element]
    return dtype


def kind_of(name: str, tensor: torch.Tensor) -> TensorType:
    """Returns the type of a tensor in a program; a complex tensor has its parts in an additional last dimension (Z1).

    Raises:
      ReproError: a program cannot contain the element type.
    """
    shape = (*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape)
    return TensorType(name, element_of(tensor.dtype), shape, tensor.dtype in _UNSIGNED, tensor.is_complex())


def share(tensor: torch.Tensor, kind: TensorType, what: str) -> np.ndarray:
    """Returns the tensor as an array that shares its memory; see `TensorModule.share`."""
    if tensor.device.type != "cpu":
        raise ReproError(f"{what} {kind.name}: expected a tensor on the CPU, got one on {tensor.device}")
    if tensor.layout is not torch.strided or tensor.is_neg():
        form = "one with the negative bit" if tensor.is_neg() else f"one of layout {tensor.layout}"
        raise ReproError(f"{what} {kind.name}: expected a dense tensor that has its values in memory, got {form}")
    element = element_of(tensor.dtype)
    if element != kind.element or (tensor.is_complex() and not kind.complex):
        found = f"complex<{element}>" if tensor.is_complex() else element
        raise ReproError(f"{what} {kind.name}: expected elements of {kind.shown_element}, got {found}")
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    held = ELEMENTS[element]
    array: np.ndarray = (tensor.view(getattr(torch, held.numpy)) if held.is_bits else tensor).numpy()
    return array


def to_tensor(array: np.ndarray, kind: TensorType) -> torch.Tensor:
    """Returns a PyTorch tensor that shares the memory of an array; see `TensorModule.to_tensor`."""
    tensor = torch.from_numpy(user_array(array, kind))
    return tensor.view(_DTYPES[kind.element]) if ELEMENTS[kind.element].is_bits else tensor
