# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Transports for ranks that are threads of one process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

import numpy as np
from repro_mlir.base.errors import RankLost
from repro_mlir.distributed.transport import Message, Transport

_SECONDS = 0.05
"""The time in seconds between two checks whether a rank has left."""


class _Loopback(Transport):
    """A `Transport` that passes messages between threads through queues.

    Attributes:
      sent: bytes that this rank has sent.
    """

    def __init__(self, rank: int, queues: Sequence[Sequence[queue.Queue[bytes]]], gone: threading.Event) -> None:
        self.rank = rank
        self.size = len(queues)
        self.sent = 0
        self._queues = queues
        self._gone = gone

    def start(self, sends: Sequence[Message], receives: Sequence[Message]) -> Callable[[], None]:
        for peer, data in sends:
            self.sent += data.nbytes
            self._queues[self.rank][peer].put(data.tobytes())

        def wait() -> None:
            for peer, data in receives:
                data[...] = np.frombuffer(self._take(peer), np.uint8)

        return wait

    def _take(self, peer: int) -> bytes:
        while True:
            try:
                return self._queues[peer][self.rank].get(timeout=_SECONDS)
            except queue.Empty:
                if self._gone.is_set():
                    raise RankLost(f"rank {self.rank}: another rank has left the run") from None

    def leave(self) -> None:
        """Simulates the end of this rank's process: other ranks that wait for its messages fail."""
        self._gone.set()


def make_loopback(size: int) -> list[_Loopback]:
    """Returns a transport for each of `size` ranks, which are threads of this process."""
    queues: list[list[queue.Queue[bytes]]] = [[queue.Queue() for _ in range(size)] for _ in range(size)]
    gone = threading.Event()
    return [_Loopback(rank, queues, gone) for rank in range(size)]


def run_ranks(size: int, work: Callable[[int], None]) -> None:
    """Calls `work` with every rank's number, each in a thread named "rank N". Each call must return within 5
    minutes."""
    threads = [threading.Thread(target=work, args=(rank,), name=f"rank {rank}", daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive(), f"{thread.name} waits for a message"
