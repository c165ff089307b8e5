# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Arrays between inaccessible memory pages: an access out of bounds crashes the process, or changes bytes that a test
checks."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_PAGE = mmap.PAGESIZE
_CANARY = 0xA7
_NO_ACCESS = 0  # PROT_NONE, which Python's mmap module does not define
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """A copy of an array that ends (`at_end`) or begins at an inaccessible page.

    Attributes:
      array: the copy, aligned only to its element size.
    """

    def __init__(self, source: np.ndarray, at_end: bool = True) -> None:
        size = source.nbytes
        room = -(-max(size, 1) // _PAGE) * _PAGE
        self._memory = mmap.mmap(-1, room + 2 * _PAGE)
        whole = np.frombuffer(self._memory, np.uint8)
        for page in (0, room + _PAGE):
            if _LIBC.mprotect(whole.ctypes.data + page, _PAGE, _NO_ACCESS):
                raise OSError(ctypes.get_errno(), "mprotect failed")
        inner = whole[_PAGE : _PAGE + room]
        inner[:] = _CANARY
        start = room - size if at_end else 0
        self._around = (inner[:start], inner[start + size :])
        self.array = inner[start : start + size].view(source.dtype).reshape(source.shape)
        self.array[...] = source

    def is_intact(self) -> bool:
        """Whether the accessible bytes next to the array are unchanged."""
        return all((part == _CANARY).all() for part in self._around)
