# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Ranks that torchrun starts, by torch.distributed (docs/distributed.md)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.distributed as dist

from ..distributed.ranks import Ranks
from ..distributed.transport import Message
from ..errors import RankLost


def connect(shares: Sequence[int] | None = None) -> Ranks:
    """The ranks that `torchrun` has started, for `Trainer(..., ranks=...)`.

    The default process group is used where there is one, else made with gloo.

    Args:
      shares: how much of the work each rank does, in proportion, the same on every rank. None: equal shares.
    Raises:
      ReproError: shares that are none.
    """
    return Ranks(TorchTransport(), None if shares is None else tuple(shares))


class TorchTransport:
    """See `Transport`, over the default process group (gloo)."""

    def __init__(self) -> None:
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message]) -> None:
        operations = [
            *(dist.P2POp(dist.isend, torch.from_numpy(data), peer) for peer, data in sends if data.size),
            *(dist.P2POp(dist.irecv, torch.from_numpy(data), peer) for peer, data in receives if data.size),
        ]
        if not operations:
            return
        try:
            for request in dist.batch_isend_irecv(operations):
                request.wait()
        except RuntimeError as error:
            raise self._lost(error) from None

    def broadcast(self, data: np.ndarray, root: int) -> None:
        try:
            dist.broadcast(torch.from_numpy(data), root)
        except RuntimeError as error:
            raise self._lost(error) from None

    def barrier(self) -> None:
        try:
            dist.barrier()
        except RuntimeError as error:
            raise self._lost(error) from None

    def _lost(self, error: RuntimeError) -> RankLost:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return RankLost(f"rank {self.rank}: another rank cannot be reached any more ({reason})")
