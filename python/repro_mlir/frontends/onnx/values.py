# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Converts ONNX element types and tensors to PyTorch's."""

from __future__ import annotations

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from repro_mlir.frontends.onnx.errors import OnnxError

Value = torch.Tensor | list[torch.Tensor] | None
"""The value of a name in a graph: a tensor, a sequence of tensors, or None for an absent optional value."""

_DTYPES: dict[int, torch.dtype] = {
    onnx.TensorProto.FLOAT: torch.float32,
    onnx.TensorProto.DOUBLE: torch.float64,
    onnx.TensorProto.FLOAT16: torch.float16,
    onnx.TensorProto.BFLOAT16: torch.bfloat16,
    onnx.TensorProto.FLOAT8E4M3FN: torch.float8_e4m3fn,
    onnx.TensorProto.FLOAT8E5M2: torch.float8_e5m2,
    onnx.TensorProto.INT8: torch.int8,
    onnx.TensorProto.INT16: torch.int16,
    onnx.TensorProto.INT32: torch.int32,
    onnx.TensorProto.INT64: torch.int64,
    onnx.TensorProto.UINT8: torch.uint8,
    onnx.TensorProto.UINT16: torch.uint16,
    onnx.TensorProto.UINT32: torch.uint32,
    onnx.TensorProto.UINT64: torch.uint64,
    onnx.TensorProto.BOOL: torch.bool,
}
_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}


def dtype_of(element: int) -> torch.dtype:
    """Returns PyTorch's element type. Raises OnnxError for a type that programs do not support."""
    if element not in _DTYPES:
        known = onnx.TensorProto.DataType.values()
        name = onnx.TensorProto.DataType.Name(element) if element in known else str(element)
        raise OnnxError(f"the element type {name} is not supported (V1)")
    return _DTYPES[element]


def to_torch(tensor: onnx.TensorProto) -> torch.Tensor:
    """Copies a tensor to PyTorch. Raises OnnxError for an unsupported element type or data of another size."""
    try:
        dtype = dtype_of(tensor.data_type)
    except OnnxError as error:
        raise OnnxError(f"tensor {tensor.name!r}: {error}" if tensor.name else str(error)) from None
    try:
        array = np.ascontiguousarray(numpy_helper.to_array(tensor)).reshape(tuple(tensor.dims))
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise OnnxError(f"tensor {tensor.name!r} is damaged: {str(error).splitlines()[0]}") from None
    if dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        bits = torch.from_numpy(array.view(np.int16 if array.itemsize == 2 else np.int8).copy())
        return bits.view(dtype)
    return torch.from_numpy(array.copy())


def type_proto(value: Value) -> onnx.TypeProto:
    """Returns the ONNX type of a value, with its shape."""
    if isinstance(value, torch.Tensor):
        return onnx.helper.make_tensor_type_proto(_NUMBERS[value.dtype], tuple(value.shape))
    if value:
        return onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(_NUMBERS[value[0].dtype], None))
    return onnx.TypeProto()
