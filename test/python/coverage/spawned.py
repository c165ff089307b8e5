# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the entries of a suite in processes that are spawned, not forked: JAX starts threads, which makes forking
unsafe."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from suite import Outcome


def _work(run_entry: Callable[[str], Outcome], pipe: Any) -> None:
    while True:
        pipe.send(run_entry(pipe.recv()))


class _Worker:
    """A spawned process that runs entries one after another, each when its name is sent."""

    def __init__(self, run_entry: Callable[[str], Outcome]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(run_entry, other), daemon=True)
        self.process.start()
        other.close()
        self.name = ""
        self.begin = 0.0

    def start(self, name: str) -> None:
        self.pipe.send(name)
        self.name, self.begin = name, time.monotonic()


def run_spawned(
    run_entry: Callable[[str], Outcome], names: Sequence[str], jobs: int, limit: float
) -> Iterator[Outcome]:
    """Runs `run_entry` on each name, in `jobs` processes at a time, and yields the outcomes as they finish. An entry
    that takes more than `limit` seconds has the outcome "timeout"."""
    waiting = list(reversed(names))
    idle, running = [_Worker(run_entry) for _ in range(min(jobs, len(waiting)))], []
    while waiting or running:
        while waiting and idle:
            worker = idle.pop()
            worker.start(waiting.pop())
            running.append(worker)
        for worker in list(running):
            if worker.pipe.poll(0.01):
                try:
                    yield worker.pipe.recv()
                    running.remove(worker)
                    idle.append(worker)
                    continue
                except EOFError:
                    worker.process.join()
                    yield Outcome(worker.name, "crash", f"exit code {worker.process.exitcode}")
            elif time.monotonic() - worker.begin > limit:
                yield Outcome(worker.name, "timeout", f"more than {limit:g} s")
            else:
                continue
            worker.process.kill()
            running.remove(worker)
            idle.append(_Worker(run_entry))
    for worker in idle:
        worker.process.kill()
