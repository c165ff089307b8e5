# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parses program text in the calling process instead of a sandbox child, which saves a few milliseconds per text.

Only the children of forked.py may use this, because they have limits of their own. A text that ends such a child is
parsed again in the sandbox.
"""

from __future__ import annotations

import functools
import os

from repro_mlir.sandbox import requests
from repro_mlir.sandbox.server import OUT_OF_MEMORY
from repro_mlir.sandbox_worker import work


def begin() -> None:
    """Makes this process parse and compile by itself, instead of sending requests to the sandbox's child processes."""
    requests._SERVER.exchange = _exchange  # type: ignore[method-assign]


def _exchange(request: bytes, seconds: int, done: str) -> tuple[int, bytes, bytes]:
    try:
        return 0, _performed(request), b""
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


# Most damaged files contain the undamaged program of their seed, so a cache saves parsing this program again.
_performed = functools.lru_cache(maxsize=64)(work.perform)
