# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The ranks of a run, and the assignment of the tree's leaves (B2) to them."""

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
"""The type of the argument `shares` of `connect`."""

_MEASURED_STEP = 2
_WHOLE_SHARE = 10_000


@dataclass(eq=False)
class Ranks(ConstantAttributes):
    """The ranks of a run.

    Attributes:
      transport: moves bytes between the ranks, and knows the number of this rank.
      shares: the proportions of the work of the ranks, such as `(5, 2, 1)`. None for equal shares. "measured" for equal
        shares until the second step, whose times per microbatch then determine the shares.
      check_share: the fraction of each rank's work that another rank repeats, from 0 to 1, see `Checks`.
      shard_optimizer: whether each rank keeps and updates only its own part of the optimizer's state (T3), as in
        ZeRO-1.
    Raises:
      ReproError: the length of `shares` is not the number of ranks, `shares` has an element that is not an integer of
        at least 0, or has no element above 0; `check_share` is not from 0 to 1.
    """

    transport: Transport
    shares: tuple[int, ...] | Literal["measured"] | None = None
    check_share: float = 0.0
    shard_optimizer: bool = False
    _cut_short: bool = field(default=False, init=False, repr=False)
    _measured: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.check_share <= 1:
            raise ReproError(f"expected check_share from 0 to 1, got {self.check_share}")
        shares = self.shares
        if shares is None or shares == "measured":
            return
        if len(shares) != self.transport.size:
            raise ReproError(f"expected a share for each of {self.transport.size} ranks, got {len(shares)} shares")
        if any(type(share) is not int or share < 0 for share in shares) or sum(shares) == 0:
            raise ReproError(f"expected shares that are whole numbers of at least 0, not all 0, got {shares}")

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""
        return self.transport.rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.transport.size

    def leaves(self, count: int) -> list[range]:
        """Returns the leaves of each rank. The leaves 0 to count - 1 are divided into consecutive ranges, in proportion
        to the shares."""
        shares = self.shares if isinstance(self.shares, tuple) else (1,) * self.size
        ends = [count * done // sum(shares) for done in itertools.accumulate(shares)]
        return [range(start, end) for start, end in itertools.pairwise([0, *ends])]

    def measure(self, seconds: float) -> None:
        """If the shares are "measured", sets them after the second step, in inverse proportion to the times per
        microbatch. All ranks call this in each step.

        Args:
          seconds: the time of one microbatch on this rank in this step; NaN if the rank had no microbatch.
        """
        if self.shares != "measured":
            return
        self._measured += 1
        # The first step is not measured: cold caches make it slower.
        if self._measured < _MEASURED_STEP:
            return
        found = np.array([struct.unpack("<d", data)[0] for data in self.gather(struct.pack("<d", seconds))])
        rates = 1 / np.maximum(np.where(np.isnan(found), np.nanmax(found), found), 1e-9)
        shares = tuple(max(1, round(each)) for each in rates / rates.max() * _WHOLE_SHARE)
        # A subclass of `ConstantAttributes` rejects assignments; only this measurement may change the shares.
        object.__setattr__(self, "shares", shares)

    def gather(self, own: bytes, sizes: Sequence[int] | None = None) -> list[bytes]:
        """Sends the bytes of this rank to all ranks; returns the bytes of every rank, by rank.

        Args:
          own: the bytes of this rank.
          sizes: the number of bytes of each rank; None if all have the length of `own`.
        """
        others = [peer for peer in range(self.size) if peer != self.rank]
        data = np.frombuffer(own, np.uint8).copy()
        received = {peer: np.empty(len(own) if sizes is None else sizes[peer], np.uint8) for peer in others}
        self.transport.exchange([(peer, data) for peer in others], [*received.items()])
        received[self.rank] = data
        return [received[rank].tobytes() for rank in range(self.size)]

    @contextmanager
    def step(self) -> Iterator[None]:
        """A context manager for the exchanges of one step.

        If the block raises `Agreed`, the step has ended on every rank, and another step can follow. After any other
        exception, no step can follow: the other ranks still wait for messages of this step, and would confuse them with
        those of the next step.

        Raises:
          RankLost: an exception has interrupted an earlier step.
        """
        if self._cut_short:
            raise RankLost(f"rank {self.rank}: a step was interrupted: start all ranks again from a checkpoint")
        self._cut_short = True
        try:
            yield
        except Agreed:
            self._cut_short = False
            raise
        self._cut_short = False


def shares_of(shares: Shares) -> tuple[int, ...] | Literal["measured"] | None:
    """Converts the argument `shares` of `connect` to the form that `Ranks` stores."""
    return tuple(shares) if shares is not None and not isinstance(shares, str) else shares


class Agreed(Exception):
    """Raised on every rank when all ranks know that a step has failed. Callers raise the cause of this exception
    instead."""
