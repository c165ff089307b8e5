# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Program text is read by the process that asks, not by a child of its own: a few milliseconds less for each text.

For a child of forked.py alone, which has limits itself: a text that ends it is tried again as it is in use.
"""

from __future__ import annotations

import functools
import os

from repro_mlir.sandbox import requests
from repro_mlir.sandbox.server import OUT_OF_MEMORY
from repro_mlir.sandbox_worker import work


def begin() -> None:
    """From now on this process does by itself what it asks of children."""
    requests._SERVER.exchange = _exchange  # type: ignore[method-assign]


def _exchange(request: bytes, seconds: int, done: str) -> tuple[int, bytes, bytes]:
    try:
        return 0, _performed(request), b""
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


# Most damaged files have the program of their seed.
_performed = functools.lru_cache(maxsize=64)(work.perform)
