# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Elements as a safetensors file has them: f6 and f4 without the bits that their bytes in memory have above the code.

Element i has the bits from i * width on, counted from the lowest bit of the first byte. The format says no more than
how many bytes there are; of f4 this is the order of PyTorch's float4_e2m1fn_x2.
"""

from __future__ import annotations

import math

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType, from_bytes


def _packed_width(kind: TensorType) -> int | None:
    """The bits of an element that does not have whole bytes."""
    element = ELEMENTS[kind.element]
    return element.width if element.format is not None and element.width < 8 else None


def packed_size(kind: TensorType) -> int:
    """Bytes of a tensor in the file. ReproError for elements that do not fill them: the format has no such tensor."""
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
    """The bytes of a tensor, little-endian; not a copy where memory holds them. ReproError as `packed_size`."""
    packed_size(kind)
    width = _packed_width(kind)
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).reshape(-1).view(np.uint8)
    if width is not None:
        bits = np.unpackbits(little.reshape(-1, 1), axis=1, count=width, bitorder="little")
        little = np.packbits(bits, bitorder="little")
    return little.data


def unpack(data: bytes | memoryview, kind: TensorType) -> np.ndarray:
    """A new array of `packed_size` bytes of a file."""
    width = _packed_width(kind)
    if width is None:
        return from_bytes(data, kind).copy()
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, width)
    return np.packbits(bits, axis=1, bitorder="little").reshape(kind.shape)
