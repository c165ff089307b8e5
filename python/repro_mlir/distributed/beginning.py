# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Begins a run on several ranks, with the state in rank 0's receipt, or with the state of each rank."""

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
_POSITION = struct.Struct(f"<QQQQ{FORM}")


class Position(NamedTuple):
    """The position at which a resumed receipt continues: the numbers of its records and of its steps, the cursor in the
    batches (see `Recorder`), and the number of steps from one of its kept states to the next."""

    records: int
    steps: int
    cursor: int
    checkpoint_every: int


def begin_without_receipt(ranks: Ranks) -> None:
    """Begins a run in which this rank writes no receipt. Raises the same errors as `begin_together`."""
    with _agreed(ranks):
        _compare(ranks, None, None)


def begin_together(
    ranks: Ranks,
    prepare: Callable[[], bytes],
    resume: Callable[[], Position],
    state: Callable[[], Mapping[str, np.ndarray]],
) -> Position:
    """Begins a run in which this rank writes a receipt. Returns the position at which the run begins, which is the same
    on all ranks.

    Args:
      prepare: returns a digest of 32 bytes that identifies the run and must be equal on all ranks.
      resume: opens the receipt and returns its position; called on rank 0 only, after all digests have been found
        equal.
      state: returns this rank's state tensors. If rank 0's receipt has records, the values of rank 0's tensors are
        copied to these tensors.
    Raises:
      ReproError: only some ranks have a receipt, or their runs differ; an error that `prepare` or `resume` raises is
        raised on this rank and reported to the other ranks.
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
    """A context manager for the exchanges at the beginning of a run. If the exchanges raise `Agreed`, raises the cause
    of that exception instead."""
    try:
        with ranks.step():
            yield
    except Agreed as error:
        assert error.__cause__ is not None
        raise error.__cause__ from None


def _compare(ranks: Ranks, digest: bytes | None, failure: BaseException | None) -> None:
    """Raises `Agreed` unless all ranks write a receipt and their runs are the same, or no rank writes a receipt."""
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
            f"ranks {', '.join(others)} of {ranks.size} begin another run than rank 0: expected the same program, "
            "initial state and options of the receipt"
        )


def _resumed(ranks: Ranks, resume: Callable[[], Position]) -> Position:
    """Calls `resume` on rank 0; returns the position on all ranks."""
    position, failure = Position(0, 0, 0, 0), None
    if ranks.rank == 0:
        try:
            position = resume()
        except BaseException as error:
            failure = error
    said = [
        _POSITION.unpack(data) for data in ranks.gather(_POSITION.pack(*position, *pack_failure(describe(failure))))
    ]
    _raise_failures(said, failure)
    return Position(*said[0][:4])


def _raise_failures(said: Sequence[tuple[Any, ...]], own: BaseException | None) -> None:
    """Raises `Agreed` if any rank has failed. The cause is this rank's own failure, or else the failure of the first
    rank that has one."""
    for rank, (*_, length, message) in enumerate(said):
        if length:
            raise Agreed from own or ReproError(f"rank {rank}: {unpack_failure(length, message)}")


def _send_state(ranks: Ranks, state: Mapping[str, np.ndarray]) -> None:
    # Reshaped to one dimension, because NumPy cannot view a 0-dimensional array as another dtype.
    tensors = [np.ascontiguousarray(array).reshape(-1) for array in state.values()]
    if ranks.rank == 0:
        others = range(1, ranks.size)
        ranks.transport.exchange([(peer, each.view(np.uint8)) for peer in others for each in tensors], [])
        return
    ranks.transport.exchange([], [(0, each.view(np.uint8)) for each in tensors])
    for array, values in zip(state.values(), tensors, strict=True):
        array[...] = values.reshape(array.shape)
