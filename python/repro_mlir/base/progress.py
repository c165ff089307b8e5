# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A progress line on standard error, shown only on terminals."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

_WIDTH = 24
# The minimum number of seconds between two updates.
_INTERVAL = 0.1


class _Work:
    """Adds up the time that this process spends in `working` blocks, in seconds; nested blocks count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._start = 0.0

    def begin(self) -> None:
        if self._depth == 0:
            self._start = time.perf_counter()
        self._depth += 1

    def end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._start


_WORK = _Work()


def _is_terminal(stream: TextIO | None) -> bool:
    """Returns whether `stream` is a terminal; sys.stderr is None if the process started with it closed."""
    return stream is not None and stream.isatty()


class Progress:
    """A progress bar with count, rate and a note; silent if the stream is not a terminal. The rate excludes the time
    for capturing and compiling (`working`), which a separate line at the end reports.

    with Progress(300, "training") as progress:
        for ...: progress.advance(f"loss {loss:.4f}")
    """

    def __init__(self, total: int, label: str, stream: TextIO | None = None) -> None:
        self.total = total
        self.label = label
        self.done = 0
        self._stream = sys.stderr if stream is None else stream
        self._shown = _is_terminal(self._stream)
        self._start = time.perf_counter()
        self._worked = _WORK.seconds
        self._last = 0.0
        self._note = ""

    def __enter__(self) -> Progress:
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._shown:
            self._draw()
            self._stream.write("\n")
            worked = _WORK.seconds - self._worked
            if worked > 0:
                self._stream.write(f"capturing and compiling: {worked:.1f} s\n")
            self._stream.flush()

    def advance(self, note: str = "") -> None:
        """Counts one more item as done; `note` is printed at the end of the line."""
        self.done += 1
        self._note = note
        if self._shown and time.perf_counter() - self._last >= _INTERVAL:
            self._draw()

    def _draw(self) -> None:
        if not self._shown:
            return
        self._last = time.perf_counter()
        elapsed = self._last - self._start - (_WORK.seconds - self._worked)
        filled = _WIDTH * self.done // max(self.total, 1)
        rate = f"{self.done / elapsed:.1f}/s" if self.done and elapsed > 0 else ""
        left = f"{elapsed / self.done * (self.total - self.done):.0f} s left" if 0 < self.done < self.total else ""
        parts = [
            f"{self.label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {self.done}/{self.total}",
            rate,
            left,
            self._note,
        ]
        self._stream.write("\r\x1b[K" + "  ".join(part for part in parts if part))
        self._stream.flush()


@contextmanager
def working(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """A context manager that shows `what`, a phase of capturing or compiling, on a terminal while its block runs."""
    stream = sys.stderr if stream is None else stream
    shown = _is_terminal(stream)
    if shown:
        stream.write(f"{what} ...")
        stream.flush()
    _WORK.begin()
    try:
        yield
    finally:
        _WORK.end()
        if shown:
            stream.write("\r\x1b[K")
            stream.flush()
