# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V2) The floating-point environment of a thread: how Python, NumPy and gmpy2 round, and whether subnormals are kept.

A caller may have changed it: torch.set_flush_denormal(True) and the fesetround of C do.
"""

from __future__ import annotations

import contextlib
import ctypes

from repro_mlir.base.errors import ReproError

# The C library's own functions, which know the control registers of every machine. A thread takes over the environment
# of the one that started it.
_C = ctypes.PyDLL(None)
_DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV: to nearest even, without flush-to-zero
_Environment = ctypes.c_char * 64  # fenv_t has 32 bytes on x86-64 and 8 on AArch64
_get, _set, _round = _C.fegetenv, _C.fesetenv, _C.fegetround


class float_environment(contextlib.ContextDecorator):
    """(V2) In its block, or in the function that it decorates, this thread rounds to nearest even and keeps subnormals;
    then the caller's environment is back."""

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
        # A decorated function may call itself, and run in several threads.
        return float_environment()


def require_default_environment() -> None:
    """ReproError where this thread deviates from (V2) before a model is captured: threads of a framework may have the
    environment as well, so that constants which it computes would be others."""
    if found := deviation():
        raise ReproError(f"(V2) capture expects the default floating-point environment, got {found}")


def deviation() -> str | None:
    """How the environment of this thread deviates from (V2), in words; None if it does not."""
    if _round() != 0:
        return "a rounding mode other than to nearest even (fesetround)"
    if _NORMAL * _HALF == 0.0 or _SUBNORMAL * _TWO == 0.0:
        return "subnormal numbers flushed to zero (torch.set_flush_denormal)"
    return None


# Variables, so that Python multiplies them when asked. A processor may flush results, and what it reads.
_NORMAL, _HALF, _SUBNORMAL, _TWO = 2.0**-1022, 0.5, 2.0**-1074, 2.0
