# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs numbered work items in forked children, so that a crash or hang is reported and the other items continue."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
"""Whether AddressSanitizer is loaded; if it is, the address space cannot be limited (tools/sanitizers)."""

Work = Callable[[int], str]
"""Runs a work item and returns its outcome: "ok", another word that is not a finding, or "finding: " and a
description."""


_ENDED = "finding: the process ended"


@dataclass(frozen=True)
class Limits:
    """The limits of one child process.

    Attributes:
      seconds: the time limit per work item.
      memory: the number of bytes of address space that a child may use in addition to what it inherits.
      batch: the number of work items per child.
    """

    seconds: float = 60
    memory: int = 8 << 30
    batch: int = 100


@dataclass(frozen=True)
class Result:
    """The number of a work item and its outcome. An outcome that begins with "finding" is an error to report."""

    number: int
    outcome: str

    @property
    def is_finding(self) -> bool:
        """Whether the outcome reports an error."""
        return self.outcome.startswith("finding")


def run(numbers: Iterable[int], work: Work, limits: Limits = Limits(), again: Work | None = None) -> Iterator[Result]:
    """Runs `work` on each number in children; yields the results in the order of `numbers`, which is read one batch at
    a time.

    Args:
      again: repeats an item that ended its child, in a new child; the result of `again` replaces that of `work`.
    """
    source = iter(numbers)
    batch: list[int] = []
    while True:
        while len(batch) < limits.batch and (number := next(source, None)) is not None:
            batch.append(number)
        if not batch:
            return
        done = 0
        for result in _child(batch, work, limits):
            done += 1
            if again is not None and result.outcome.startswith(_ENDED):
                (result,) = _child([result.number], again, limits)
            yield result
        batch = batch[done:]


def _child(batch: list[int], work: Work, limits: Limits) -> Iterator[Result]:
    """Yields the results of one child. If an item ended the child, its result is the last one and says how the child
    died."""
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        _work(batch, work, limits, writer)
    os.close(writer)
    try:
        yield from _results(batch, process, reader, limits)
    finally:
        os.close(reader)
        _end(process)


def _work(batch: list[int], work: Work, limits: Limits, writer: int) -> None:
    """Runs the child; never returns."""
    try:
        # Drops the output of an item: to reproduce the item, its number is enough.
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not SANITIZED:
            # The limit is relative to the parent's address space, because a worker that has run other tests may use
            # gigabytes.
            space = limits.memory + int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (space, space))
        for number in batch:
            try:
                outcome = work(number)
            except BaseException:
                outcome = "finding: " + traceback.format_exc(limit=-6)
            os.write(writer, json.dumps([number, outcome[:4000]]).encode() + b"\n")
    finally:
        os._exit(0)


def _results(batch: list[int], process: int, reader: int, limits: Limits) -> Iterator[Result]:
    buffer, waiting = b"", list(batch)
    while waiting:
        deadline = time.monotonic() + limits.seconds
        while b"\n" not in buffer:
            ready, _, _ = select.select([reader], [], [], max(deadline - time.monotonic(), 0))
            piece = os.read(reader, 1 << 16) if ready else b""
            if not piece:
                how = _status(process) if ready else f"more than {limits.seconds:g} seconds"
                yield Result(waiting[0], f"{_ENDED}: {how}")
                return
            buffer += piece
        line, buffer = buffer.split(b"\n", 1)
        number, outcome = json.loads(line)
        assert number == waiting.pop(0)
        yield Result(number, outcome)


def _status(process: int) -> str:
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _end(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
