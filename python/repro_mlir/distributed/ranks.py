# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The ranks of a run, and which leaves of the tree (B2) each of them owns."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import RankLost, ReproError
from repro_mlir.distributed.transport import Transport

Shares = Sequence[int] | Literal["measured"] | None
"""As `connect` takes shares of the work."""

_MEASURED_STEP = 2
_WHOLE_SHARE = 10_000


@dataclass(eq=False)
class Ranks(ConstantAttributes):
    """The ranks of a run.

    Attributes:
      transport: moves bytes between them, and knows which one this is.
      shares: how much of the work each rank does, in proportion: `(5, 2, 1)`. None: as much as the others. "measured":
        at first as much as the others, then by the time that microbatches have taken in the second step.
      check_share: how much of the work of each rank another one does too, from 0 to 1, see `Checks`.
      shard_optimizer: whether each rank has its own part of the optimizer's state, and updates that (T3): ZeRO-1.
    Raises:
      ReproError: another number of shares than there are ranks, or shares that are no whole numbers from 0, one above;
        a share of checks that is none.
    """

    transport: Transport
    shares: tuple[int, ...] | Literal["measured"] | None = None
    check_share: float = 0.0
    shard_optimizer: bool = False
    _cut_short: bool = field(default=False, init=False, repr=False)
    _measured: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.check_share <= 1:
            raise ReproError(f"expected a share of checks from 0 to 1, got {self.check_share}")
        shares = self.shares
        if shares is None or shares == "measured":
            return
        if len(shares) != self.transport.size:
            raise ReproError(f"expected a share for each of {self.transport.size} ranks, got {len(shares)}")
        if any(type(share) is not int or share < 0 for share in shares) or sum(shares) == 0:
            raise ReproError(f"expected shares as whole numbers from 0, one of them above, got {shares}")

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return self.transport.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self.transport.size

    def leaves(self, count: int) -> list[range]:
        """The leaves of each rank, of `count` in all: consecutive ones, in proportion to the shares."""
        shares = self.shares if isinstance(self.shares, tuple) else (1,) * self.size
        ends = [count * done // sum(shares) for done in itertools.accumulate(shares)]
        return [range(start, end) for start, end in itertools.pairwise([0, *ends])]

    def measure(self, seconds: float) -> None:
        """Takes shares by the time of the second step, where they are to be measured; all ranks call it in each step.

        Args:
          seconds: how long a microbatch has taken here; NaN where there was none.
        """
        if self.shares != "measured":
            return
        self._measured += 1
        # The first step finds nothing in any cache.
        if self._measured < _MEASURED_STEP:
            return
        found = np.array([struct.unpack("<d", data)[0] for data in self.gather(struct.pack("<d", seconds))])
        rates = 1 / np.maximum(np.where(np.isnan(found), np.nanmax(found), found), 1e-9)
        shares = tuple(max(1, round(each)) for each in rates / rates.max() * _WHOLE_SHARE)
        # The measurement is the one place that changes them.
        object.__setattr__(self, "shares", shares)

    def gather(self, own: bytes, sizes: Sequence[int] | None = None) -> list[bytes]:
        """What each rank has.

        Args:
          own: of this rank.
          sizes: by rank, how many bytes; None: all as many.
        """
        others = [peer for peer in range(self.size) if peer != self.rank]
        data = np.frombuffer(own, np.uint8).copy()
        received = {peer: np.empty(len(own) if sizes is None else sizes[peer], np.uint8) for peer in others}
        self.transport.exchange([(peer, data) for peer in others], [*received.items()])
        received[self.rank] = data
        return [received[rank].tobytes() for rank in range(self.size)]

    @contextmanager
    def step(self) -> Iterator[None]:
        """The exchanges of one step.

        `Agreed` ends the step on every rank, and another one can follow. Any other exception leaves the others waiting
        for a message of this step, and they would take the first message of the next one for it.

        Raises:
          RankLost: an exception has cut a former step short.
        """
        if self._cut_short:
            raise RankLost(f"rank {self.rank}: a step was cut short: start the ranks again, from a checkpoint")
        self._cut_short = True
        try:
            yield
        except Agreed:
            self._cut_short = False
            raise
        self._cut_short = False


def shares_of(shares: Shares) -> tuple[int, ...] | Literal["measured"] | None:
    """Shares as `Ranks` has them."""
    return tuple(shares) if shares is not None and not isinstance(shares, str) else shares


class Agreed(Exception):
    """Ends a step of `Ranks` on every rank; its cause is raised."""
