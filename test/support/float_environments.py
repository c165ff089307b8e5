# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Floating-point environments that differ from the default one, such as a caller may have set."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

_C = ctypes.CDLL(None)
# FE_UPWARD, FE_DOWNWARD and FE_TOWARDZERO of the C library.
_MODES = (0x400000, 0x800000, 0xC00000) if platform.machine() in ("aarch64", "arm64") else (0x800, 0x400, 0xC00)


@contextmanager
def rounding(mode: int) -> Iterator[None]:
    """Sets a rounding mode for the duration of a `with` block."""
    assert _C.fesetround(mode) == 0
    try:
        yield
        assert _C.fegetround() == mode, "the caller's rounding mode is not back"
    finally:
        _C.fesetround(0)


@contextmanager
def flushing() -> Iterator[None]:
    """Flushes subnormals to zero for the duration of a `with` block."""
    assert torch.set_flush_denormal(True)
    try:
        yield
        assert sys.float_info.min / 2 == 0, "the caller's flush-to-zero is not back"
    finally:
        torch.set_flush_denormal(False)


ENVIRONMENTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "flush": flushing,
    **{name: functools.partial(rounding, mode) for name, mode in zip(("up", "down", "zero"), _MODES, strict=True)},
}
