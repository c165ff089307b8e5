# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Uses mpi4py to connect the ranks that mpirun has started (docs/guides/distributed.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI

from repro_mlir.base.errors import RankLost
from repro_mlir.distributed.ranks import Ranks, Shares, shares_of
from repro_mlir.distributed.transport import Message, Transport


def connect(shares: Shares = None, check_share: float = 0.0, shard_optimizer: bool = False) -> Ranks:
    """Returns the ranks that `mpirun` has started, for `Trainer(..., ranks=...)`.

    An exception that ends one process ends all processes. `sys.exit` in one process does so only if the script was
    started with `-m mpi4py`.

    Args:
      shares: the relative amount of work per rank, the same list on every rank. None: equal shares. "measured": the
        amounts follow from the times of the microbatches in the second step.
      check_share: the fraction, from 0 to 1, of a rank's work that another rank repeats: if the two ranks compute
        different gradients, the step has no result, and the faulty rank is named (docs/guides/distributed.md).
      shard_optimizer: whether each rank stores and updates its own shard of the optimizer's state, as in ZeRO-1.
    Raises:
      ReproError: invalid shares.
    """
    former = sys.excepthook

    def abort(*error: Any) -> None:
        """Prints the exception and ends all processes. Otherwise the other processes would wait for this one
        forever."""
        former(*error)
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)

    sys.excepthook = abort
    return Ranks(MpiTransport(), shares_of(shares), check_share, shard_optimizer)


class MpiTransport(Transport):
    """A `Transport` between all processes of MPI_COMM_WORLD."""

    def __init__(self) -> None:
        self._world = MPI.COMM_WORLD
        self._world.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank = self._world.Get_rank()
        self.size = self._world.Get_size()

    def start(self, sends: Sequence[Message], receives: Sequence[Message]) -> Callable[[], None]:
        """Starts the messages and returns a function that waits for them; see `Transport`."""
        try:
            requests = [self._world.Irecv(data, peer) for peer, data in receives if data.size]
            requests += [self._world.Isend(data, peer) for peer, data in sends if data.size]
        except MPI.Exception as error:
            raise self._lost(error) from None

        def wait() -> None:
            try:
                MPI.Request.Waitall(requests)
            except MPI.Exception as error:
                raise self._lost(error) from None

        return wait

    def _lost(self, error: MPI.Exception) -> RankLost:
        return RankLost(f"rank {self.rank}: another rank cannot be reached any more ({error})")
