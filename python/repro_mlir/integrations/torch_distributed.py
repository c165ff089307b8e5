# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Uses torch.distributed to connect the ranks that torchrun has started (docs/guides/distributed.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from repro_mlir.base.errors import RankLost, ReproError
from repro_mlir.distributed.ranks import Ranks, Shares, shares_of
from repro_mlir.distributed.transport import Message, Transport


def connect(shares: Shares = None, check_share: float = 0.0, shard_optimizer: bool = False) -> Ranks:
    """Returns the ranks that `torchrun` has started, for `Trainer(..., ranks=...)`.

    The default process group is used if it exists; otherwise it is created with gloo.

    Args:
      shares: the relative amount of work per rank, the same list on every rank. None: equal shares. "measured": the
        amounts follow from the times of the microbatches in the second step.
      check_share: the fraction, from 0 to 1, of a rank's work that another rank repeats: if the two ranks compute
        different gradients, the step has no result, and the faulty rank is named (docs/guides/distributed.md).
      shard_optimizer: whether each rank stores and updates its own shard of the optimizer's state, as in ZeRO-1.
    Raises:
      ReproError: the process was not started by `torchrun`, the backend is not gloo, or the shares are invalid.
    """
    return Ranks(TorchTransport(), shares_of(shares), check_share, shard_optimizer)


class TorchTransport(Transport):
    """A `Transport` between the processes of the default process group, whose backend is gloo."""

    def __init__(self) -> None:
        if not dist.is_initialized():
            try:
                dist.init_process_group("gloo")
            except ValueError as error:
                raise ReproError(f"expected a process that torchrun has started: {error}") from None
        if "gloo" not in dist.get_backend():
            raise ReproError(f"expected a process group with the backend gloo, got {dist.get_backend()}")
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()

    def start(self, sends: Sequence[Message], receives: Sequence[Message]) -> Callable[[], None]:
        """Starts the messages and returns a function that waits for them; see `Transport`."""
        try:
            requests = [
                *(dist.isend(torch.from_numpy(data), peer) for peer, data in sends if data.size),
                *(dist.irecv(torch.from_numpy(data), peer) for peer, data in receives if data.size),
            ]
        except RuntimeError as error:
            raise self._lost(error) from None

        def wait() -> None:
            try:
                for request in requests:
                    # torch.distributed returns None as a request only in a process that is not in the group.
                    assert request is not None
                    request.wait()
            except RuntimeError as error:
                raise self._lost(error) from None

        return wait

    def _lost(self, error: RuntimeError) -> RankLost:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return RankLost(f"rank {self.rank}: another rank cannot be reached any more ({reason})")
