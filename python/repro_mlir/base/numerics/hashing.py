# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Hashes of tensors (H1) and states (H3), by which two machines compare results."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import element_type, from_bits, to_bits
from repro_mlir.base.numerics.tensors import is_canonical, parts_of

_MAGIC = b"repro-tensor-v1\0"
_STATE_MAGIC = b"repro-state-v1\0\0"


@float_environment()
def tensor_bytes(array: np.ndarray, element: str) -> bytes:
    """Returns the elements of an array, row-major and little-endian, with i1 as one byte and canonical NaNs (V4).

    Args:
      array: for a storage type, float32 with values that the type represents, float16 for f16, or the bits as unsigned
        integers.
      element: the MLIR name of the element type.
    """
    kind = element_type(element)
    array = np.asarray(array)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "f" and kind.is_float:
        bits = to_bits(array.astype(kind.dtype, casting="safe"), kind)
    elif kind.is_storage and array.dtype == kind.bits_dtype:
        bits = to_bits(from_bits(array, kind), kind)
    elif array.dtype.kind in "iub" and not kind.is_float:
        bits = to_bits(array.astype(np.int64), kind)
    else:
        raise TypeError(f"expected an array of {element}, got {array.dtype}")
    return bits.astype(bits.dtype.newbyteorder("<")).tobytes()


def tensor_digest(array: np.ndarray, element: str, *, alone: bool = True) -> bytes:
    """(H1) Returns the BLAKE3 hash of a tensor with elements of the MLIR type `element`.

    Args:
      array: as for `tensor_bytes`; complex numbers are hashed as the pairs of their parts (Z1).
      element: the MLIR name of the element type.
      alone: see `blake3_of`.
    """
    array = parts_of(np.asarray(array))
    return blake3_of(tensor_header(element, array.shape), plain_bytes(array, element), alone=alone)


def tensor_header(element: str, shape: Sequence[int]) -> bytes:
    """(H1) Returns the bytes that are hashed before the elements of a tensor."""
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return _MAGIC + element.encode("ascii").ljust(16, b"\0") + dimensions


def tensor_hash(array: np.ndarray, element: str) -> str:
    """(H1) Returns `tensor_digest` in hexadecimal."""
    return tensor_digest(array, element).hex()


def plain_bytes(array: np.ndarray, element: str) -> bytes | memoryview:
    """Returns `tensor_bytes`, without a copy if the memory already contains these bytes; checking this is faster than
    copying."""
    if sys.byteorder == "little" and array.dtype.isnative and array.flags.c_contiguous and array.size and array.ndim:
        known = ELEMENTS.get(element)
        # Integers are signless (V1), so an unsigned NumPy type has the same bytes.
        sign = "u" if known is not None and known.format is None else ""
        if known is not None and array.dtype.name.removeprefix(sign) == known.numpy and is_canonical(array, element):
            return array.reshape(-1).view(np.uint8).data
    return tensor_bytes(array, element)


def tensor_digests(tensors: Sequence[tuple[np.ndarray, str]], pool: ThreadPoolExecutor | None = None) -> list[bytes]:
    """(H1) Returns the digest of each tensor, given as an array and its element type, in order. The threads of `pool`
    compute the digests, or this thread if there is no pool."""
    if pool is None:
        return [tensor_digest(array, element) for array, element in tensors]
    digests: list[bytes] = [b""] * len(tensors)
    # The largest tensors are hashed first, so that no thread finishes long after the others.
    order = sorted(range(len(tensors)), key=lambda i: -tensors[i][0].nbytes)
    for i, digest in zip(order, pool.map(lambda i: tensor_digest(*tensors[i], alone=False), order), strict=True):
        digests[i] = digest
    return digests


def state_hash(tensors: Iterable[tuple[np.ndarray, str]]) -> str:
    """(H3) Returns the hexadecimal hash of a state, given as arrays and MLIR element types in program order."""
    return combine_digests([tensor_digest(array, element) for array, element in tensors])


def combine_digests(digests: Sequence[bytes]) -> str:
    """(H3) Returns the hexadecimal hash of a state from the hashes (H1) of its tensors."""
    return blake3_of(_STATE_MAGIC + struct.pack("<I", len(digests)) + b"".join(digests)).hex()
