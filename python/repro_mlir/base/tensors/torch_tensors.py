# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch's tensors as NumPy arrays and back, as `frontends.tensors.TensorModule` says."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import torch

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType, user_array

# The runner takes this file to machines whose PyTorch is older and has no f8.
_DTYPES = {
    name: getattr(torch, element.library) for name, element in ELEMENTS.items() if hasattr(torch, element.library)
}
# Integers have no sign in a program (V1).
_UNSIGNED = {getattr(torch, f"uint{width}"): f"i{width}" for width in (8, 16, 32, 64) if hasattr(torch, f"uint{width}")}
_ELEMENTS = {dtype: element for element, dtype in _DTYPES.items()} | _UNSIGNED


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor)


_COMPLEX = {"f32": torch.complex64, "f64": torch.complex128}
_PARTS = {dtype: _DTYPES[element] for element, dtype in _COMPLEX.items()}


def element_of(dtype: torch.dtype) -> str:
    """MLIR's name of an element type; of a complex one, that of its parts. ReproError for one programs cannot hold."""
    dtype = _PARTS.get(dtype, dtype)
    if dtype not in _ELEMENTS:
        found, known = str(dtype).removeprefix("torch."), (element.library for element in ELEMENTS.values())
        raise ReproError(f"expected one of the element types {', '.join(known)}, got {found}")
    return _ELEMENTS[dtype]


def dtype_of(kind: TensorType) -> torch.dtype:
    """PyTorch's element type of a tensor."""
    if kind.complex:
        return _COMPLEX[kind.element]
    dtype: torch.dtype = getattr(torch, kind.dtype.name) if kind.unsigned else _DTYPES[kind.element]
    return dtype


def kind_of(name: str, tensor: torch.Tensor) -> TensorType:
    """Name, element type and shape of a tensor in programs; a complex one has its parts in a last dimension (Z1).

    ReproError for one that programs cannot hold.
    """
    shape = (*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape)
    return TensorType(name, element_of(tensor.dtype), shape, tensor.dtype in _UNSIGNED, tensor.is_complex())


def share(tensor: torch.Tensor, kind: TensorType, what: str) -> np.ndarray:
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
    tensor = torch.from_numpy(user_array(array, kind))
    return tensor.view(_DTYPES[kind.element]) if ELEMENTS[kind.element].is_bits else tensor
