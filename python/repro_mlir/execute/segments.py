# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs a rank's part of a program: compiled segments and, between them, exchanges with the other ranks (T2)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from repro_mlir.distributed.gathering import exchange_parts
from repro_mlir.distributed.ranks import Ranks
from repro_mlir.program.partition import Broadcast, Call, Gather, RankProgram

Values = Mapping[int, np.ndarray]


def run_steps(
    plan: RankProgram,
    ranks: Ranks,
    values: dict[int, np.ndarray],
    call: Callable[[Call, Values], Values],
    memory: Values | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> BaseException | None:
    """Runs a rank's program, while the other ranks run theirs.

    Args:
      values: the values by number, at first only the arguments; all other values are added.
      call: a function that runs a segment and returns its results.
      memory: buffers for received values, by number; None to allocate new ones.
      meanwhile: a function that is called during the last exchange.
    Returns:
      the exception of the first failed segment, after which the results are meaningless; else None.
    Raises:
      Agreed: a rank has failed before an exchange.
      RankLost: another rank is gone.
    """
    failure: BaseException | None = None
    groups = [[*steps] for _, steps in itertools.groupby(plan.steps, _exchange_of)]
    exchanges = [i for i, steps in enumerate(groups) if not isinstance(steps[0], Call)]
    for i, steps in enumerate(groups):
        moved = [step for step in steps if not isinstance(step, Call)]
        if moved:
            during = meanwhile if i == exchanges[-1] else lambda: None
            exchange_parts(ranks, parts := _parts(plan, moved, values, memory), failure, during)
            for each, found in zip(moved, parts, strict=True):
                values[each.whole] = _gathered(each, found) if isinstance(each, Gather) else _of(each.owner, found)
        for step in (step for step in steps if isinstance(step, Call)):
            try:
                values |= call(step, values)
            except BaseException as error:
                # A KeyboardInterrupt is also kept for later, because the other ranks wait for the next exchange.
                failure = failure or error
                values |= _nothing(plan, step)
    return failure


def _exchange_of(step: Call | Gather | Broadcast) -> object:
    """Returns a key for a gather or a broadcast, or None for the call of a segment. Adjacent gathers or broadcasts with
    equal keys form one exchange."""
    if isinstance(step, Call):
        return None
    return step.stage if isinstance(step, Broadcast) else Gather


def _nothing(plan: RankProgram, step: Call) -> dict[int, np.ndarray]:
    """Returns zeros as placeholders for the results of a failed segment."""
    outputs = plan.segments[step.segment].outputs
    return {number: np.zeros(kind.shape, kind.dtype) for number, kind in zip(step.results, outputs, strict=True)}


def _parts(
    plan: RankProgram, steps: Sequence[Gather | Broadcast], values: Values, memory: Values | None
) -> list[list[np.ndarray | None]]:
    """Returns the parts of an exchange, in the format of `exchange_parts`."""
    found: list[list[np.ndarray | None]] = []
    for step in steps:
        own = None if step.part is None else np.asarray(values[step.part], order="C")
        if isinstance(step, Broadcast):
            if own is None:
                own = np.empty(step.kind.shape, step.kind.dtype) if memory is None else memory[step.whole]
            found.append([own if rank == step.owner else None for rank in range(plan.size)])
            continue
        assert own is not None
        shapes = [step.cut.shape(step.shape, rank) for rank in range(plan.size)]
        found.append([own if rank == plan.rank else np.empty(shapes[rank], own.dtype) for rank in range(plan.size)])
    return found


def _of(rank: int, parts: Sequence[np.ndarray | None]) -> np.ndarray:
    part = parts[rank]
    assert part is not None
    return part


def _gathered(step: Gather, parts: Sequence[np.ndarray | None]) -> np.ndarray:
    whole = np.empty(step.shape, _of(0, parts).dtype)
    for rank in range(len(parts)):
        place = step.cut.part(whole, rank)
        place[...] = _of(rank, parts).reshape(place.shape)
    return whole
