# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V2) The floating-point environment of a thread: how Python, NumPy and gmpy2 round, and whether subnormals are kept.

A caller may have changed it: torch.set_flush_denormal(True) and the fesetround of C do.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator

# The C library's own functions, which know the control registers of every machine. A thread takes over the environment
# of the one that started it.
_C = ctypes.CDLL(None)
_DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV: to nearest even, without flush-to-zero
_SIZE = 64  # bytes; fenv_t has 32 on x86-64 and 8 on AArch64


@contextlib.contextmanager
def float_environment() -> Iterator[None]:
    """(V2) In its block, or in the function that it decorates, this thread rounds to nearest even and keeps subnormals;
    then the caller's environment is back."""
    saved = ctypes.create_string_buffer(_SIZE)
    _C.fegetenv(saved)
    _C.fesetenv(_DEFAULT)
    try:
        yield
    finally:
        _C.fesetenv(saved)


def deviation() -> str | None:
    """How the environment of this thread deviates from (V2), in words; None if it does not."""
    if _C.fegetround() != 0:
        return "a rounding mode other than to nearest even (fesetround)"
    if sys.float_info.min / 2 == 0:
        return "subnormal numbers flushed to zero (torch.set_flush_denormal)"
    return None
