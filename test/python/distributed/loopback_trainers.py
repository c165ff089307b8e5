# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Trainers of ranks that are threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from loopback import make_loopback, run_ranks
from repro_mlir.distributed import Ranks
from repro_mlir.train.captured_step import KnownForms


class Trainers:
    """The trainers of all ranks, which are threads of this process and make the same calls."""

    def __init__(self, size: int, build: Callable[[Ranks], Any], **options: Any) -> None:
        """Makes the trainers one after another: `build` receives a rank's `Ranks`, made with `options`, and returns its
        trainer."""
        self.transports = make_loopback(size)
        self.trainers = [build(Ranks(transport, **options)) for transport in self.transports]

    def run(self, work: Callable[[int, Any], Any]) -> list[Any]:
        """Calls `work` with each rank's number and trainer, in parallel. Returns, per rank, the result or the exception
        that `work` raised."""
        found: list[Any] = [None] * len(self.trainers)

        def each(rank: int) -> None:
            try:
                found[rank] = work(rank, self.trainers[rank])
            except Exception as error:
                found[rank] = error
                self.transports[rank].leave()

        run_ranks(len(self.trainers), each)
        return found


def capture_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the ranks capture one at a time, even if opening a receipt starts their captures at the same time."""
    capture, lock = KnownForms.capture, threading.Lock()

    def captured_alone(*arguments: Any) -> Any:
        with lock:
            return capture(*arguments)

    monkeypatch.setattr(KnownForms, "capture", captured_alone)
