# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Ranks begin where the receipt of rank 0 does, or none begins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loopback import make_loopback
from repro_mlir.distributed import Ranks
from repro_mlir.distributed.beginning import Beginning, begin_together
from repro_mlir.errors import ReproError


def begun(size: int, own: Callable[[int], Beginning]) -> tuple[list[Any], list[dict[str, np.ndarray]]]:
    """What each rank begins with, or the exception; and their states, which are filled with their numbers before."""
    ranks = [Ranks(each) for each in make_loopback(size)]
    states = [
        {"a": np.full((2, 3), rank, np.float32), "n": np.array(rank, np.int64), "e": np.empty((0,), np.float32)}
        for rank in range(size)
    ]
    found: list[Any] = [None] * size

    def work(rank: int) -> None:
        try:
            found[rank] = begin_together(ranks[rank], lambda: own(rank), lambda: states[rank])
            # Another exchange goes on from here.
            begin_together(ranks[rank], lambda: Beginning(False), dict)
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, states


@pytest.mark.parametrize("size", [1, 2, 5])
def test_others_get_the_state_of_a_receipt_that_goes_on(size: int) -> None:
    begin = Beginning(True, records=7, steps=5, cursor=6)
    found, states = begun(size, lambda rank: begin if rank == 0 else Beginning(True))
    assert found == [begin] * size
    assert all((state["a"] == 0).all() and state["n"] == 0 for state in states)


def test_a_new_run_begins_with_the_state_of_each() -> None:
    found, states = begun(3, lambda rank: Beginning(True))
    assert found == [Beginning(True)] * 3 and [state["n"] for state in states] == [0, 1, 2]


def test_some_without_a_receipt() -> None:
    found, _ = begun(3, lambda rank: Beginning(rank == 1))
    assert {str(each) for each in found} == {"ranks 0, 2 of 3 write no receipt: expected one on all ranks or on none"}


def test_rank_0_has_no_receipt() -> None:
    def own(rank: int) -> Beginning:
        if rank == 0:
            raise ReproError("é" * 300)
        return Beginning(True)

    found, _ = begun(3, own)
    assert str(found[0]) == "é" * 300
    assert str(found[1]) == str(found[2]) and str(found[1]).startswith("rank 0: éé") and len(str(found[1])) < 140


def test_an_exception_of_another_kind_is_told_too() -> None:
    def own(rank: int) -> Beginning:
        if rank == 2:
            raise KeyError
        return Beginning(True)

    with pytest.raises(ReproError, match="rank 2: KeyError"):
        raise begun(3, own)[0][1]
