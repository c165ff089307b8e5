# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The bytes (H1) of several tensors, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro_mlir.base.numerics.hashing import tensor_bytes
from repro_mlir.base.numerics.tensors import TensorType, check_canonical, from_bytes


def size_of(kinds: Sequence[TensorType]) -> int:
    """Bytes of the record of such tensors."""
    return sum(kind.nbytes for kind in kinds)


def encode(arrays: Sequence[np.ndarray], kinds: Sequence[TensorType]) -> bytes:
    """The record of these arrays."""
    return b"".join(tensor_bytes(array, kind.element) for array, kind in zip(arrays, kinds, strict=True))


def decode(record: bytes, kinds: Sequence[TensorType], where: str) -> list[np.ndarray]:
    """The arrays of a record of `size_of` bytes: aligned to their elements, and they cannot be written to.

    Raises:
      ReproError: bytes that `encode` does not give (V4); `where` names their place.
    """
    arrays, begin = [], 0
    for kind in kinds:
        end = begin + kind.nbytes
        array = from_bytes(memoryview(record)[begin:end], kind)
        check_canonical(array, kind, where)
        # Where it begins depends on the tensors before it.
        arrays.append(array if array.flags.aligned else _copy(array))
        begin = end
    return arrays


def _copy(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy
