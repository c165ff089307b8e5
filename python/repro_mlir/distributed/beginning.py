# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Where the ranks of a run begin: at the state of the receipt that rank 0 has, or each at its own."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import ReproError
from .ranks import Agreed, Ranks

_FORM = struct.Struct("<BQQQB255s")


@dataclass(frozen=True)
class Beginning:
    """What a rank says before its first step.

    Attributes:
      has_receipt: whether the run has one, which rank 0 writes.
      records, steps, cursor: of rank 0, up to where the receipt has been resumed.
      failure: why rank 0 has no receipt; empty where it has one.
    """

    has_receipt: bool
    records: int = 0
    steps: int = 0
    cursor: int = 0
    failure: str = ""

    def to_bytes(self) -> bytes:
        message = self.failure.encode()[:255]
        return _FORM.pack(self.has_receipt, self.records, self.steps, self.cursor, len(message), message)

    @classmethod
    def of_bytes(cls, data: bytes) -> Beginning:
        has_receipt, records, steps, cursor, length, message = _FORM.unpack(data)
        return cls(bool(has_receipt), records, steps, cursor, message[:length].decode(errors="replace"))


def begin_together(
    ranks: Ranks, own: Callable[[], Beginning], state: Callable[[], Mapping[str, np.ndarray]]
) -> Beginning:
    """Where the run begins, the same on all ranks.

    Args:
      own: what this rank says; an exception of it is raised here, and is the failure that the others are told.
      state: gives the state tensors, which get the values that rank 0 has, where its receipt has records.
    Raises:
      ReproError: rank 0 has no receipt for a reason of its own; some ranks have a receipt and others not.
      RankLost: another rank is gone.
    """
    failed: BaseException | None = None
    try:
        said = own()
    except BaseException as error:
        failed, said = error, Beginning(True, failure=str(error) or type(error).__name__)
    try:
        with ranks.step():
            found = _agree(ranks, said, failed)
            if found.records:
                _send_state(ranks, state())
            return found
    except Agreed as error:
        assert error.__cause__ is not None
        raise error.__cause__ from None


def _agree(ranks: Ranks, said: Beginning, failed: BaseException | None) -> Beginning:
    all_said = [Beginning.of_bytes(data) for data in ranks.gather(said.to_bytes())]
    without = [str(rank) for rank, each in enumerate(all_said) if not each.has_receipt]
    failures = [(rank, each.failure) for rank, each in enumerate(all_said) if each.failure]
    if 0 < len(without) < ranks.size:
        message = f"ranks {', '.join(without)} of {ranks.size} write no receipt: expected one on all ranks or on none"
        raise Agreed from failed or ReproError(message)
    if failures:
        rank, message = failures[0]
        raise Agreed from failed or ReproError(f"rank {rank}: {message}")
    return all_said[0]


def _send_state(ranks: Ranks, state: Mapping[str, np.ndarray]) -> None:
    # A scalar has no view of other elements.
    tensors = [np.ascontiguousarray(array).reshape(-1) for array in state.values()]
    if ranks.rank == 0:
        others = range(1, ranks.size)
        ranks.transport.exchange([(peer, each.view(np.uint8)) for peer in others for each in tensors], [])
        return
    ranks.transport.exchange([], [(0, each.view(np.uint8)) for each in tensors])
    for array, values in zip(state.values(), tensors, strict=True):
        array[...] = values.reshape(array.shape)
