# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Signals that wait until work is done that must not be cut short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Calls the Python handlers of signals, such as Ctrl-C's, after the block; that of a second delivery at once.

    Other threads than the main one run no handlers: there it does nothing.
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
    """Puts all handlers back, also where one of them is called meanwhile and raises."""
    try:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    except BaseException:
        _restore(handlers)
        raise
