# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V2) The floating-point environment of a thread, which determines how Python, NumPy and gmpy2 round and whether they
flush subnormals.

A caller may have changed the environment, for example by torch.set_flush_denormal(True) or C's fesetround.
"""

from __future__ import annotations

import contextlib
import ctypes

from repro_mlir.base.errors import ReproError

# The functions of the C library handle the control registers of every architecture. A thread inherits the environment
# of the thread that started it.
_C = ctypes.PyDLL(None)
_DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV: to nearest even, without flush-to-zero
_Environment = ctypes.c_char * 64  # fenv_t has 32 bytes on x86-64 and 8 on AArch64
_get, _set, _round = _C.fegetenv, _C.fesetenv, _C.fegetround


class float_environment(contextlib.ContextDecorator):
    """(V2) A context manager and decorator that makes this thread round to nearest even and keep subnormals, and then
    restores the caller's environment."""

    _saved: ctypes.Array[ctypes.c_char] | None = None

    def __enter__(self) -> None:
        if deviation() is not None:
            self._saved = _Environment()
            _get(self._saved)
            _set(_DEFAULT)

    def __exit__(self, *_: object) -> None:
        if self._saved is not None:
            _set(self._saved)
            self._saved = None

    def _recreate_cm(self) -> float_environment:
        # A decorated function may recurse or run in several threads, so each call needs its own instance.
        return float_environment()


def require_default_environment() -> None:
    """Raises ReproError if this thread deviates from (V2) before a model is captured: the framework's threads may
    deviate too, and would then compute different constants."""
    if found := deviation():
        raise ReproError(f"(V2) capture expects the default floating-point environment, got {found}")


def deviation() -> str | None:
    """Describes how the environment of this thread deviates from (V2); returns None if it does not."""
    if _round() != 0:
        return "a rounding mode other than to nearest even (fesetround)"
    if _NORMAL * _HALF == 0.0 or _SUBNORMAL * _TWO == 0.0:
        return "subnormal numbers flushed to zero (torch.set_flush_denormal)"
    return None


# These are variables so that Python multiplies them at run time instead of folding constants. The two products detect
# whether the processor flushes subnormal results or operands.
_NORMAL, _HALF, _SUBNORMAL, _TWO = 2.0**-1022, 0.5, 2.0**-1074, 2.0
