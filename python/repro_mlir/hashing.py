# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hashes of tensors (H1): what two machines compare."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import blake3
import numpy as np

from .reference.formats import element_type, from_bits, to_bits

_MAGIC = b"repro-tensor-v1\0"
_STATE_MAGIC = b"repro-state-v1\0\0"


def tensor_bytes(array: np.ndarray, element: str) -> bytes:
    """The elements of an array, row-major and little-endian, i1 as one byte, NaNs canonical (V4).

    `element` is the MLIR name of the element type. A bf16, f16 or f8 array is float32 with values that the type
    represents, float16 for f16, or unsigned integers of the type's width, its bits.
    """
    kind = element_type(element)
    array = np.asarray(array)
    if array.dtype.kind == "f" and kind.is_float:
        bits = to_bits(array.astype(kind.dtype, casting="safe"), kind)
    elif kind.is_storage and array.dtype == np.dtype(f"u{kind.width // 8}"):
        bits = to_bits(from_bits(array, kind), kind)
    elif array.dtype.kind in "iub" and not kind.is_float:
        bits = to_bits(array.astype(np.int64), kind)
    else:
        raise TypeError(f"expected an array of {element}, got {array.dtype}")
    return bits.astype(bits.dtype.newbyteorder("<")).tobytes()


def tensor_hash(array: np.ndarray, element: str) -> str:
    """(H1) The BLAKE3 hash of a tensor with elements of the MLIR type `element`, in hexadecimal."""
    array = np.asarray(array)
    header = _MAGIC + element.encode("ascii").ljust(16, b"\0") + struct.pack("<I", array.ndim)
    header += struct.pack(f"<{array.ndim}Q", *array.shape)
    return blake3.blake3(header + tensor_bytes(array, element)).hexdigest()


def state_hash(tensors: Iterable[tuple[np.ndarray, str]]) -> str:
    """(H3) The hash of a state: arrays and their MLIR element types in the order of the program, in hexadecimal."""
    digests = [bytes.fromhex(tensor_hash(array, element)) for array, element in tensors]
    return blake3.blake3(_STATE_MAGIC + struct.pack("<I", len(digests)) + b"".join(digests)).hexdigest()
