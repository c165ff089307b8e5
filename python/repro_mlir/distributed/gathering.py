# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Exchanges parts of tensors: each rank sends its own parts to all other ranks (T2)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

from repro_mlir.base.errors import StepFailed
from repro_mlir.distributed.failures import FORM, describe, pack_failure, unpack_failure
from repro_mlir.distributed.ranks import Agreed, Ranks

_FORM = struct.Struct(f"<{FORM}")


def exchange_parts(
    ranks: Ranks,
    parts: Sequence[Sequence[np.ndarray | None]],
    failure: BaseException | None,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Sends this rank's parts of tensors to the other ranks, and receives the parts of the other ranks.

    Args:
      parts: for each tensor, a list with the contiguous part of each rank; None for a rank that has no part of it. This
        rank's own parts are read, and may have any values if this rank has failed; the parts of other ranks are
        written.
      failure: the error because of which this rank has no parts, or None. An error is sent to the other ranks, and then
        all ranks fail.
      meanwhile: a function that is called during the exchange.
    Raises:
      Agreed: a rank has failed; the cause is `failure` on this rank, a StepFailed on the others.
      RankLost: another rank is gone.
    """
    others = [peer for peer in range(ranks.size) if peer != ranks.rank]
    own = np.frombuffer(_FORM.pack(*pack_failure(describe(failure))), np.uint8).copy()
    said = {peer: np.empty(_FORM.size, np.uint8) for peer in others}

    def messages(peer: int, rank: int) -> list[tuple[int, np.ndarray]]:
        # Parts without elements are not sent.
        return [(peer, _bytes(part)) for each in parts if (part := each[rank]) is not None and part.size]

    sends = [message for peer in others for message in messages(peer, ranks.rank)]
    receives = [message for peer in others for message in messages(peer, peer)]
    wait = ranks.transport.start([*((peer, own) for peer in others), *sends], [*said.items(), *receives])
    try:
        meanwhile()
    finally:
        wait()
    if failure is not None:
        raise Agreed from failure
    for peer, data in said.items():
        text = unpack_failure(*_FORM.unpack(data.tobytes()))
        if text:
            raise Agreed from StepFailed(f"rank {peer}: {text}")


def _bytes(array: np.ndarray) -> np.ndarray:
    # Reshaped to one dimension, because NumPy cannot view a 0-dimensional array as another dtype.
    return array.reshape(-1).view(np.uint8)
