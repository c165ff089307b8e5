# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Either all ranks begin at the step of rank 0's receipt, or none begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from loopback import make_loopback, run_ranks
from repro_mlir.base.errors import ReproError
from repro_mlir.distributed import Ranks
from repro_mlir.distributed.beginning import Position, begin_together, begin_without_receipt

Begin = Callable[[Ranks, Mapping[str, np.ndarray]], Any]

START = Position(0, 0, 0, 100)
RUN = b"r" * 32


def begun(size: int, begin: Begin) -> tuple[list[Any], list[dict[str, np.ndarray]]]:
    """Calls `begin` on `size` ranks. Each rank's state consists of its own number, so that states differ. Returns, for
    each rank, what `begin` returned or raised, and the state after the call."""
    ranks = [Ranks(each) for each in make_loopback(size)]
    states = [
        {"a": np.full((2, 3), rank, np.float32), "n": np.array(rank, np.int64), "e": np.empty((0,), np.float32)}
        for rank in range(size)
    ]
    found: list[Any] = [None] * size

    def work(rank: int) -> None:
        try:
            found[rank] = begin(ranks[rank], states[rank])
        except Exception as error:
            found[rank] = error
        # Checks that the ranks can still exchange messages.
        begin_without_receipt(ranks[rank])

    run_ranks(size, work)
    return found, states


def fail(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("size", [1, 2, 5])
def test_others_get_the_state_of_a_receipt_that_goes_on(size: int) -> None:
    position = Position(records=7, steps=5, cursor=6, checkpoint_every=2)

    def begin(ranks: Ranks, state: Mapping[str, np.ndarray]) -> Position:
        # On any rank other than 0, opening the receipt is an error.
        resume = (lambda: position) if ranks.rank == 0 else (lambda: fail(AssertionError()))
        return begin_together(ranks, lambda: RUN, resume, lambda: state)

    found, states = begun(size, begin)
    assert found == [position] * size
    assert all((state["a"] == 0).all() and state["n"] == 0 for state in states)


def test_a_new_run_begins_with_the_state_of_each() -> None:
    found, states = begun(3, lambda ranks, state: begin_together(ranks, lambda: RUN, lambda: START, lambda: state))
    assert found == [START] * 3 and [state["n"] for state in states] == [0, 1, 2]


def test_some_without_a_receipt() -> None:
    """Rank 1 alone has no receipt."""

    def begin(ranks: Ranks, state: Mapping[str, np.ndarray]) -> Any:
        if ranks.rank == 1:
            return begin_without_receipt(ranks)
        return begin_together(ranks, lambda: RUN, lambda: fail(AssertionError()), lambda: state)

    found, _ = begun(3, begin)
    assert {str(each) for each in found} == {"ranks 1 of 3 write no receipt: expected one on all ranks or on none"}


def test_ranks_of_another_run() -> None:
    def begin(ranks: Ranks, state: Mapping[str, np.ndarray]) -> Any:
        run = RUN if ranks.rank != 2 else b"s" * 32
        return begin_together(ranks, lambda: run, lambda: fail(AssertionError()), lambda: state)

    found, _ = begun(3, begin)
    assert all("ranks 2 of 3 begin another run than rank 0" in str(each) for each in found)


@pytest.mark.parametrize("where", ["prepare", "resume"])
def test_rank_0_has_no_receipt(where: str) -> None:
    def begin(ranks: Ranks, state: Mapping[str, np.ndarray]) -> Any:
        def raise_there(here: str, value: Any) -> Any:
            return fail(ReproError("\u00e9" * 300)) if (where, ranks.rank) == (here, 0) else value

        return begin_together(ranks, lambda: raise_there("prepare", RUN), lambda: raise_there("resume", START), dict)

    found, _ = begun(3, begin)
    assert str(found[0]) == "\u00e9" * 300
    assert str(found[1]) == str(found[2]) and str(found[1]).startswith("rank 0: \u00e9\u00e9")
    assert len(str(found[1])) < 140


def test_an_exception_of_another_type_is_reported_too() -> None:
    def begin(ranks: Ranks, state: Mapping[str, np.ndarray]) -> Any:
        prepare = (lambda: fail(KeyError())) if ranks.rank == 2 else (lambda: RUN)
        return begin_together(ranks, prepare, lambda: START, dict)

    found, _ = begun(3, begin)
    assert isinstance(found[2], KeyError) and str(found[0]) == str(found[1]) == "rank 2: KeyError"
