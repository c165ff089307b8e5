# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the entries of a suite in processes: forked ones start fast, but a process with threads must not be forked."""

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
    """A child process that runs entries one after another, each when its name is sent."""

    def __init__(self, run_entry: Callable[[str], Outcome], method: str) -> None:
        context = multiprocessing.get_context(method)
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(run_entry, other), daemon=True)
        self.process.start()
        other.close()
        self.name = ""
        self.begin = 0.0

    def start(self, name: str) -> None:
        self.pipe.send(name)
        self.name, self.begin = name, time.monotonic()


def run_in_processes(
    run_entry: Callable[[str], Outcome], names: Sequence[str], jobs: int, limit: float, method: str = "spawn"
) -> Iterator[Outcome]:
    """Runs a function on entries in `jobs` processes, each entry for at most `limit` seconds; yields the outcomes as
    they finish.

    Spawned processes run several entries. With the method `fork`, each entry has its own process, which inherits the
    modules that this process has imported.
    """
    waiting = list(reversed(names))
    idle, running = [_Worker(run_entry, method) for _ in range(min(jobs, len(waiting)))], []
    while waiting or running:
        while waiting and idle:
            worker = idle.pop()
            worker.start(waiting.pop())
            running.append(worker)
        for worker in list(running):
            is_kept = False
            if worker.pipe.poll(0.01):
                try:
                    yield worker.pipe.recv()
                    is_kept = method == "spawn"
                except EOFError:
                    worker.process.join()
                    yield Outcome(worker.name, "crash", f"exit code {worker.process.exitcode}")
            elif time.monotonic() - worker.begin > limit:
                yield Outcome(worker.name, "timeout", f"more than {limit:g} s")
            else:
                continue
            running.remove(worker)
            if not is_kept:
                worker.process.kill()
                worker.process.join()
            idle.append(worker if is_kept else _Worker(run_entry, method))
    for worker in idle:
        worker.process.kill()
