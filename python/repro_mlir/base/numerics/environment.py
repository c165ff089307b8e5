# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V2) The floating-point environment of a thread, which determines how Python, NumPy and gmpy2 round and whether they
flush subnormals.

A caller may have changed the environment, for example by torch.set_flush_denormal(True) or C's fesetround.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from typing import Any

from repro_mlir.base.errors import ReproError

_Environment = ctypes.c_char * 64  # fenv_t has 32 bytes on x86-64 and 8 on AArch64


@functools.cache
def _library() -> tuple[ctypes.PyDLL, Any]:
    """Returns the C library, whose functions handle the control registers of every architecture, and the address of
    its default environment: FE_DFL_ENV, to nearest even and without flush-to-zero. A thread inherits the environment of
    the thread that started it.

    Raises:
      ReproError: the default environment is not known on this system.
    """
    if sys.platform == "linux":
        return ctypes.PyDLL(None), ctypes.c_void_p(-1)
    if sys.platform == "darwin":
        library = ctypes.PyDLL(None)
        return library, ctypes.byref(_Environment.in_dll(library, "_FE_DFL_ENV"))
    raise ReproError(f"(V2) expected the default floating-point environment, got {deviation()}")


class float_environment(contextlib.ContextDecorator):
    """(V2) A context manager and decorator that makes this thread round to nearest even and keep subnormals, and then
    restores the caller's environment."""

    _saved: ctypes.Array[ctypes.c_char] | None = None

    def __enter__(self) -> None:
        if deviation() is not None:
            library, default = _library()
            self._saved = _Environment()
            library.fegetenv(self._saved)
            library.fesetenv(default)

    def __exit__(self, *_: object) -> None:
        if self._saved is not None:
            _library()[0].fesetenv(self._saved)
            self._saved = None

    def _recreate_cm(self) -> float_environment:
        # A decorated function may recurse or run in several threads, so each call needs its own instance.
        return float_environment()


def require_default_environment() -> None:
    """Raises ReproError if this thread deviates from (V2). Called before a capture: the framework's threads may deviate
    too, and would then compute different constants."""
    if found := deviation():
        raise ReproError(f"(V2) capture expects the default floating-point environment, got {found}")


def deviation() -> str | None:
    """Describes how the environment of this thread deviates from (V2); returns None if it does not."""
    if _ONE + _TINY != _ONE or _ONE - _TINY != _ONE:
        return "a rounding mode other than to nearest even (fesetround)"
    if _NORMAL * _HALF == 0.0 or _SUBNORMAL * _TWO == 0.0:
        return "subnormal numbers flushed to zero (torch.set_flush_denormal)"
    return None


# These are variables so that Python computes with them at run time instead of folding constants. The sums detect
# rounding up, down and to zero; the two products detect whether the processor flushes subnormal results or operands.
_ONE, _TINY = 1.0, 2.0**-60
_NORMAL, _HALF, _SUBNORMAL, _TWO = 2.0**-1022, 0.5, 2.0**-1074, 2.0
