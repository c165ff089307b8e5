# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Memory of large results, used again when nobody has the result any more.

The C library maps what is larger than 32 MiB anew each time: that the system clears it takes longer than a kernel that
writes it.
"""

import weakref
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch._C._dynamo import guards

LARGE = 1 << 25
"""Bytes from which on results have such memory."""

Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]

_ALIGNMENT = 4096
# PyTorch says nothing of it in its types.
_allocate: Any = guards._empty_strided_cpu  # type: ignore[attr-defined]
_free: defaultdict[int, list[np.ndarray]] = defaultdict(list)


def empty(layout: Layout, size: int) -> torch.Tensor:
    """A tensor without values, whose elements are dense, of so many bytes."""
    if size < LARGE:
        made: torch.Tensor = _allocate(*layout)
        return made
    shape, strides, dtype = layout
    try:
        memory = _free[size].pop()
    except IndexError:
        # What has another size may be of shapes that do not come again.
        _free.clear()
        whole = np.empty(size + _ALIGNMENT, np.uint8)
        begin = -whole.__array_interface__["data"][0] % _ALIGNMENT
        memory = whole[begin : begin + size]
    # The tensor's memory has the only reference to this.
    held = memory[:]
    weakref.finalize(held, _give_back, size, memory).atexit = False
    storage = torch.frombuffer(held, dtype=torch.uint8).untyped_storage()
    # No view of another tensor, which autograd would see.
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage, 0, shape, strides)


def _give_back(size: int, memory: np.ndarray) -> None:
    # Lists that were there when it was taken may have been dropped.
    _free[size].append(memory)
