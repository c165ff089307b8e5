# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Ranks that torchrun starts, by torch.distributed (docs/distributed.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from repro_mlir.base.errors import RankLost, ReproError
from repro_mlir.distributed.ranks import Ranks, Shares, shares_of
from repro_mlir.distributed.transport import Message, Transport


def connect(shares: Shares = None, check_share: float = 0.0, shard_optimizer: bool = False) -> Ranks:
    """The ranks that `torchrun` has started, for `Trainer(..., ranks=...)`.

    The default process group is used where there is one, else made with gloo.

    Args:
      shares: how much of the work each rank does, in proportion, the same on every rank. None: equal shares.
        "measured": by the time that microbatches have taken in the second step.
      check_share: how much of the work of each rank another one does too, from 0 to 1: a step of which they find
        different gradients has no result, and the rank that was wrong is named (docs/distributed.md).
      shard_optimizer: whether each rank has its own part of the optimizer's state, and updates that, as ZeRO-1 does.
    Raises:
      ReproError: not started by `torchrun`, another backend than gloo, shares that are not valid.
    """
    return Ranks(TorchTransport(), shares_of(shares), check_share, shard_optimizer)


class TorchTransport(Transport):
    """See `Transport`, over the default process group (gloo)."""

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
                    # None of a process that is no member of the group.
                    assert request is not None
                    request.wait()
            except RuntimeError as error:
                raise self._lost(error) from None

        return wait

    def _lost(self, error: RuntimeError) -> RankLost:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return RankLost(f"rank {self.rank}: another rank cannot be reached any more ({reason})")
