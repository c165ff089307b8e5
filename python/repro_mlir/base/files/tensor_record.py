# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Records: the concatenated bytes (H1) of several tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro_mlir.base.numerics.hashing import tensor_bytes
from repro_mlir.base.numerics.tensors import TensorType, check_canonical, from_bytes


def size_of(kinds: Sequence[TensorType]) -> int:
    """Returns the size in bytes of a record of tensors of these types."""
    return sum(kind.nbytes for kind in kinds)


def encode(arrays: Sequence[np.ndarray], kinds: Sequence[TensorType]) -> bytes:
    """Returns the record of these arrays."""
    return b"".join(tensor_bytes(array, kind.element) for array, kind in zip(arrays, kinds, strict=True))


def decode(record: bytes, kinds: Sequence[TensorType], where: str) -> list[np.ndarray]:
    """Returns the read-only arrays of a record of `size_of` bytes; each array is aligned to its element size.

    Raises:
      ReproError: the bytes are not canonical (V4), so `encode` cannot have produced them; `where` names the record.
    """
    arrays, begin = [], 0
    for kind in kinds:
        end = begin + kind.nbytes
        array = from_bytes(memoryview(record)[begin:end], kind)
        check_canonical(array, kind, where)
        # The offset of an array depends on the sizes of the earlier arrays, so it may be misaligned.
        arrays.append(array if array.flags.aligned else _copy(array))
        begin = end
    return arrays


def _copy(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy
