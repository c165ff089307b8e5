# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Progress on standard error: a line that changes on terminals, and a new line every ten seconds elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

from repro_mlir.base.printing import tell

_WIDTH = 24
# The minimum number of seconds between two updates.
_INTERVAL = 0.1
_ERASE = "\r\x1b[K"
"""Moves to the begin of the line of a terminal and erases the line."""

_LINE_INTERVAL = 10.0
"""The number of seconds between two lines on a stream that is not a terminal."""


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


class _Lines:
    """Writes a line every `_LINE_INTERVAL` seconds while a block runs, from a thread: a step may take minutes."""

    def __init__(self, stream: TextIO | None, text: Callable[[], str]) -> None:
        self._stream = stream
        self._text = text
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, name="progress", daemon=True)

    def start(self) -> None:
        # If a limit of this system allows no further thread, the work goes on without lines.
        with contextlib.suppress(RuntimeError):
            self._thread.start()

    def end(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _write(self) -> None:
        # The stream may be closed in the meantime; the work goes on without lines.
        with contextlib.suppress(OSError, ValueError):
            while self._stream is not None and not self._ended.wait(_LINE_INTERVAL):
                tell(self._text(), stream=self._stream)
                self._stream.flush()


_phases: list[str] = []
"""The descriptions of the `working` blocks that run, outermost first."""

_bars: list[Progress] = []
"""The progress bars that are on a terminal."""

_outermost = threading.Lock()
"""Held by the block that writes lines, so that the blocks inside it do not write lines too."""


@contextmanager
def _lines(stream: TextIO | None, text: Callable[[], str]) -> Iterator[None]:
    """Writes lines while the block runs, unless an outer block does."""
    writes = stream is not None and _outermost.acquire(blocking=False)
    lines = _Lines(stream, text)
    try:
        if writes:
            lines.start()
        yield
    finally:
        if writes:
            _outermost.release()
            lines.end()


class Progress:
    """A progress bar with count, rate and a note. The rate excludes the time for capturing and compiling (`working`),
    which a separate line at the end reports. If the stream is not a terminal, a line without control characters says
    the same every ten seconds.

    with Progress(300, "training") as progress:
        for ...: progress.advance(f"loss {loss:.4f}")
    """

    def __init__(self, total: int, label: str, stream: TextIO | None = None, silent: bool = False) -> None:
        """
        Args:
          total: the number of items.
          label: the work, in words.
          stream: None for standard error.
          silent: whether to write nothing, as ranks other than the first one do.
        """
        self.total = total
        self.label = label
        self.done = 0
        self._stream = sys.stderr if stream is None else stream
        self._silent = silent
        self._shown = _is_terminal(self._stream) and not silent
        self._start = time.perf_counter()
        self._worked = _WORK.seconds
        self._last = 0.0
        self._note = ""
        self._lines: contextlib.AbstractContextManager[None] = contextlib.nullcontext()

    def __enter__(self) -> Progress:
        # A bar within another bar's work stays hidden: both would be on one line.
        self._shown = self._shown and not _bars
        self._draw()
        if self._shown:
            _bars.append(self)
        elif not self._silent:
            self._lines = _lines(self._stream, self._line)
        self._lines.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lines.__exit__(None, None, None)
        if self._shown:
            _bars.remove(self)
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
        filled = _WIDTH * self.done // max(self.total, 1)
        self._last = time.perf_counter()
        text = self._text(f"{self.label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {self.done}/{self.total}")
        self._stream.write(f"{_ERASE}{text}")
        self._stream.flush()

    def _line(self) -> str:
        """Returns the state of the work as a line for streams that are not terminals."""
        whole = time.perf_counter() - self._start
        parts = [self._text(f"{self.label} {self.done}/{self.total}"), f"after {whole:.0f} s"]
        # A thread calls this, and the phase may end at any time: a slice never fails.
        return "  ".join([*parts, *(f"{phase} ..." for phase in _phases[-1:])])

    def _text(self, begin: str) -> str:
        """Returns `begin` with rate, time left and note."""
        elapsed = time.perf_counter() - self._start - (_WORK.seconds - self._worked)
        rate = f"{self.done / elapsed:.1f}/s" if self.done and elapsed > 0 else ""
        left = f"{elapsed / self.done * (self.total - self.done):.0f} s left" if 0 < self.done < self.total else ""
        return "  ".join(part for part in (begin, rate, left, self._note) if part)


@contextmanager
def working(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """A context manager that shows `what`, a phase of capturing or compiling, while its block runs: on a terminal at
    once, elsewhere after ten seconds."""
    stream = sys.stderr if stream is None else stream
    shown = _is_terminal(stream)
    if shown:
        # A bar or an outer phase, if there is one, is on this line.
        stream.write(f"{_ERASE if _bars or _phases else ''}{what} ...")
        stream.flush()
    begin = time.perf_counter()
    _WORK.begin()
    _phases.append(what)
    try:
        with contextlib.nullcontext() if shown else _lines(stream, lambda: _phase_line(begin)):
            yield
    finally:
        _phases.pop()
        _WORK.end()
        if shown:
            stream.write(_ERASE)
            stream.flush()


def _phase_line(begin: float) -> str:
    (phase,) = _phases[-1:] or ["working"]
    return f"{phase} ...  after {time.perf_counter() - begin:.0f} s"
