# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch's tensors as NumPy arrays and back, as `frontends.tensors.TensorModule` says."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import torch

from repro_mlir.arrays import TensorType
from repro_mlir.errors import ReproError

_NAMES = {
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
# The runner takes this file to machines whose PyTorch is older and has no f8.
_DTYPES = {element: getattr(torch, name) for element, name in _NAMES.items() if hasattr(torch, name)}
_ELEMENTS = {dtype: element for element, dtype in _DTYPES.items()}
# Types that NumPy has no name for: their bits stand for them.
_BITS = {"bf16": "uint16", "f8E4M3FN": "uint8", "f8E5M2": "uint8"}


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor)


def element_of(dtype: torch.dtype) -> str:
    """MLIR's name of an element type. ReproError for one that programs cannot hold."""
    if dtype not in _ELEMENTS:
        found = str(dtype).removeprefix("torch.")
        raise ReproError(f"expected one of the element types {', '.join(_NAMES.values())}, got {found}")
    return _ELEMENTS[dtype]


def dtype_of(element: str) -> torch.dtype:
    """PyTorch's element type for MLIR's name of it."""
    dtype: torch.dtype = _DTYPES[element]
    return dtype


def kind_of(name: str, tensor: torch.Tensor) -> TensorType:
    """Name, element type and shape of a tensor. ReproError for one that programs cannot hold."""
    return TensorType(name, element_of(tensor.dtype), tuple(tensor.shape))


def share(tensor: torch.Tensor, kind: TensorType, what: str) -> np.ndarray:
    if tensor.device.type != "cpu":
        raise ReproError(f"{what} {kind.name}: expected a tensor on the CPU, got one on {tensor.device}")
    if tensor.layout is not torch.strided or tensor.is_neg():
        form = "one with the negative bit" if tensor.is_neg() else f"one of layout {tensor.layout}"
        raise ReproError(f"{what} {kind.name}: expected a dense tensor that has its values in memory, got {form}")
    element = element_of(tensor.dtype)
    if element != kind.element:
        raise ReproError(f"{what} {kind.name}: expected elements of {kind.element}, got {element}")
    tensor = tensor.detach()
    array: np.ndarray = (tensor.view(getattr(torch, _BITS[element])) if element in _BITS else tensor).numpy()
    return array


def to_tensor(array: np.ndarray, element: str) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    return tensor.view(_DTYPES[element]) if element in _BITS else tensor
