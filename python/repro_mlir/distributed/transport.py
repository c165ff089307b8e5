# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What moves bytes between ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

Message = tuple[int, np.ndarray]
"""The other rank, and contiguous bytes (uint8, one dimension)."""


class Transport(Protocol):
    """An engine that moves bytes; it never adds, and serializes no objects.

    Every rank makes the same calls in the same order. What fails since another rank is gone is a RankLost.

    Attributes:
      rank: the number of this rank, from 0.
      size: how many ranks there are.
    """

    rank: int
    size: int

    def start(self, sends: Sequence[Message], receives: Sequence[Message]) -> Callable[[], None]:
        """Begins to send and to receive. What it returns waits until all is done; it is called once, after those of
        earlier calls.

        Args:
          sends: not to this rank itself; arrays that stay as they are until then.
          receives: arrays that are written; of one rank in the order in which that sends them, each of its size.
        """

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message]) -> None:
        """Sends and receives at once, until all is done; as `start`."""
        self.start(sends, receives)()
