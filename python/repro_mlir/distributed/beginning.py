# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Where the ranks of a run begin: at the state of the receipt that rank 0 has, or each at its own."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.distributed.failures import FORM, describe, pack_failure, unpack_failure
from repro_mlir.distributed.ranks import Agreed, Ranks

_SAID = struct.Struct(f"<B32s{FORM}")
_POSITION = struct.Struct(f"<QQQ{FORM}")


class Position(NamedTuple):
    """Up to where a receipt has been resumed, see `Recorder`."""

    records: int
    steps: int
    cursor: int


def begin_without_receipt(ranks: Ranks) -> None:
    """Returns where no rank writes a receipt. Raises as `begin_together`."""
    with _agreed(ranks):
        _compare(ranks, None, None)


def begin_together(
    ranks: Ranks,
    prepare: Callable[[], bytes],
    resume: Callable[[], Position],
    state: Callable[[], Mapping[str, np.ndarray]],
) -> Position:
    """Where a run with a receipt begins, the same on all ranks.

    Args:
      prepare: gives 32 bytes that stand for the run, which are equal on all ranks.
      resume: opens the receipt, on rank 0, when all have prepared the same.
      state: gives the state tensors, which get the values that rank 0 has, where its receipt has records.
    Raises:
      ReproError: some ranks have a receipt and others not, or of another run; what `prepare` and `resume` raise is
        raised on their rank, and told to the others.
      RankLost: another rank is gone.
    """
    digest, failure = bytes(32), None
    try:
        digest = prepare()
    except BaseException as error:
        failure = error
    with _agreed(ranks):
        _compare(ranks, digest, failure)
        position = _resumed(ranks, resume)
        if position.records:
            _send_state(ranks, state())
    return position


@contextmanager
def _agreed(ranks: Ranks) -> Iterator[None]:
    """The exchanges of a beginning: an error on which all agree is raised as it is."""
    try:
        with ranks.step():
            yield
    except Agreed as error:
        assert error.__cause__ is not None
        raise error.__cause__ from None


def _compare(ranks: Ranks, digest: bytes | None, failure: BaseException | None) -> None:
    """Returns where all ranks have a receipt of one run, or none has one."""
    own = _SAID.pack(digest is not None, digest or bytes(32), *pack_failure(describe(failure)))
    said = [_SAID.unpack(data) for data in ranks.gather(own)]
    without = [str(rank) for rank, (has_receipt, *_) in enumerate(said) if not has_receipt]
    if 0 < len(without) < ranks.size:
        message = f"ranks {', '.join(without)} of {ranks.size} write no receipt: expected one on all ranks or on none"
        raise Agreed from failure or ReproError(message)
    _raise_failures(said, failure)
    others = [str(rank) for rank, (_, each, *_) in enumerate(said) if each != said[0][1]]
    if others:
        raise Agreed from ReproError(
            f"ranks {', '.join(others)} of {ranks.size} begin another run than rank 0: another program, initial state, "
            "or option of the receipt"
        )


def _resumed(ranks: Ranks, resume: Callable[[], Position]) -> Position:
    """What rank 0 has found."""
    position, failure = Position(0, 0, 0), None
    if ranks.rank == 0:
        try:
            position = resume()
        except BaseException as error:
            failure = error
    said = [
        _POSITION.unpack(data) for data in ranks.gather(_POSITION.pack(*position, *pack_failure(describe(failure))))
    ]
    _raise_failures(said, failure)
    return Position(*said[0][:3])


def _raise_failures(said: Sequence[tuple[Any, ...]], own: BaseException | None) -> None:
    """Agreed, of the own failure or the first one of the others."""
    for rank, (*_, length, message) in enumerate(said):
        if length:
            raise Agreed from own or ReproError(f"rank {rank}: {unpack_failure(length, message)}")


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
