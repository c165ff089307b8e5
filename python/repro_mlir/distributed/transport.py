# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The interface of engines that move bytes between ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

Message = tuple[int, np.ndarray]
"""The number of the other rank, and contiguous bytes (a uint8 array of one dimension)."""


class Transport(Protocol):
    """An engine that moves bytes between ranks. It does not add, and it does not serialize objects.

    Every rank makes the same calls in the same order. A call raises RankLost if another rank is gone.

    Attributes:
      rank: the number of this rank, from 0.
      size: the number of ranks.
    """

    rank: int
    size: int

    def start(self, sends: Sequence[Message], receives: Sequence[Message]) -> Callable[[], None]:
        """Starts to send and to receive messages. Returns a function that waits until all of these messages are
        complete. The function is called once, after the functions that earlier calls of `start` returned.

        Args:
          sends: messages to other ranks; the arrays must not change until the messages are complete.
          receives: arrays to write; for each sending rank, these arrays have the order and the sizes of that rank's
            messages.
        """

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message]) -> None:
        """Sends and receives like `start`, and waits until all messages are complete."""
        self.start(sends, receives)()
