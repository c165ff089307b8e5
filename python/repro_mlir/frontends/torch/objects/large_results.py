# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Memory for large results, reused after a result has been freed.

For each allocation above 32 MiB, the C library maps a new block, and the operating system takes longer to clear this
block than a kernel takes to write it.
"""

import weakref
from collections import defaultdict

import numpy as np
import torch

from repro_mlir.frontends.torch.base.torch_internals import empty_strided_cpu

LARGE = 1 << 25
"""The smallest size in bytes of results that use reused memory."""

Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]

_ALIGNMENT = 4096
_free: defaultdict[int, list[np.ndarray]] = defaultdict(list)


def empty(layout: Layout, size: int) -> torch.Tensor:
    """Returns an uninitialized dense tensor of `size` bytes."""
    if size < LARGE:
        made: torch.Tensor = empty_strided_cpu(*layout)
        return made
    shape, strides, dtype = layout
    try:
        memory = _free[size].pop()
    except IndexError:
        # Free all blocks: those of other sizes may be for shapes that do not occur again.
        _free.clear()
        whole = np.empty(size + _ALIGNMENT, np.uint8)
        begin = -whole.__array_interface__["data"][0] % _ALIGNMENT
        memory = whole[begin : begin + size]
    # The tensor's storage has the only reference to `held`, so that `held` dies with the storage.
    held = memory[:]
    weakref.finalize(held, _give_back, size, memory).atexit = False
    storage = torch.frombuffer(held, dtype=torch.uint8).untyped_storage()
    # The result is not a view of another tensor: autograd would notice a view.
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage, 0, shape, strides)


def _give_back(size: int, memory: np.ndarray) -> None:
    # The list is looked up again, because `empty` may have cleared `_free`.
    _free[size].append(memory)
