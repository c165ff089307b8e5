# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Packing of elements as in a safetensors file: f6 and f4 elements use 6 and 4 bits there, but a byte in memory.

Element i starts at bit i * width, counted from the lowest bit of the first byte. The safetensors format specifies only
the number of bytes; for f4 this order is that of PyTorch's float4_e2m1fn_x2.
"""

from __future__ import annotations

import math

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType, from_bytes


def _packed_width(kind: TensorType) -> int | None:
    """Returns the number of bits of an element of a packed type (f6, f4); None for any other type."""
    element = ELEMENTS[kind.element]
    return element.width if element.format is not None and element.width < 8 else None


def packed_size(kind: TensorType) -> int:
    """Returns the size in bytes of a tensor in the file.

    Raises:
      ReproError: the elements do not fill whole bytes, which the format cannot represent.
    """
    width = _packed_width(kind)
    if width is None:
        return kind.nbytes
    bits = math.prod(kind.shape) * width
    if bits % 8:
        raise ReproError(
            f"tensor {kind.name}: expected a number of elements of {kind.element} that fills whole bytes of a "
            f"safetensors file, got shape {list(kind.shape)}"
        )
    return bits // 8


def pack(array: np.ndarray, kind: TensorType) -> memoryview:
    """Returns the little-endian bytes of a tensor, without a copy if the memory contains them already.

    Raises:
      ReproError: as `packed_size`.
    """
    packed_size(kind)
    width = _packed_width(kind)
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).reshape(-1).view(np.uint8)
    if width is not None:
        bits = np.unpackbits(little.reshape(-1, 1), axis=1, count=width, bitorder="little")
        little = np.packbits(bits, bitorder="little")
    return little.data


def unpack(data: bytes | memoryview, kind: TensorType) -> np.ndarray:
    """Returns a new array from `packed_size` bytes of a file."""
    width = _packed_width(kind)
    if width is None:
        return from_bytes(data, kind).copy()
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, width)
    return np.packbits(bits, axis=1, bitorder="little").reshape(kind.shape)
