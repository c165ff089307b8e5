# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Defers signals during work that must not be interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def deferred_signals() -> Iterator[None]:
    """A context manager that defers Python signal handlers, such as that of Ctrl-C, until the end of its block.

    A second delivery of the same signal runs its handler immediately. Python runs handlers only in the main thread, so
    the block has no effect in other threads.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    delivered: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if number in delivered:
            handlers[number](number, frame)
        else:
            delivered.append(number)

    try:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, note)
        yield
    finally:
        _restore(handlers)
        for each in delivered:
            handlers[each](each, None)


def _restore(handlers: dict[int, Callable[[int, FrameType | None], Any]]) -> None:
    """Restores all handlers, even if one of them is called during the restoration and raises."""
    try:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    except BaseException:
        _restore(handlers)
        raise
