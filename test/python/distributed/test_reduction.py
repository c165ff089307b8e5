# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Sums are exchanged in buckets: while one bucket is added, the next one is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from loopback import make_loopback
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.distributed import Ranks, reduction
from repro_mlir.distributed.sums import SumLayout, Sums
from repro_mlir.distributed.transport import Message
from repro_mlir.distributed.tree import fold, maximal_nodes

KINDS = [
    TensorType("a", "f32", (5, 3)),
    TensorType("n", "i64", (2,)),
    TensorType("b", "f64", (7,)),
    TensorType("loss", "f32", ()),
]


def leaf(number: int, layout: SumLayout) -> Sums:
    sums, draw = layout.new(), np.random.default_rng(number)
    for array, kind in zip(sums.tensors, KINDS, strict=True):
        array[...] = 3 if kind.element == "i64" else 10.0 ** draw.integers(-6, 6, kind.shape) * draw.normal()
    return sums


def add_sets(left: Sums, right: Sums) -> Sums:
    for element, flat in left.flat.items():
        flat += right.flat[element]
    return left


Events = list[tuple[str, int]]


def combined(count: int, shares: Sequence[int]) -> tuple[list[Sums], list[Events], list[int]]:
    """Adds test sums on ranks. Returns three lists with an entry for each rank: its sums, its events in order, and the
    number of bytes that it sent."""
    transports = make_loopback(len(shares))
    found: list[Any] = [None] * len(shares)
    events: list[Events] = [[] for _ in shares]

    def work(rank: int) -> None:
        ranks, layout = Ranks(transports[rank], tuple(shares)), SumLayout(KINDS, len(shares))
        start = transports[rank].start

        def noted(sends: Sequence[Message], receives: Sequence[Message]) -> Callable[[], None]:
            events[rank].append(("move", max((data.size for _, data in sends), default=0)))
            return start(sends, receives)

        transports[rank].start = noted  # type: ignore[method-assign]

        def add(element: str, left: np.ndarray, right: np.ndarray) -> None:
            events[rank].append(("add", left.nbytes))
            left += right

        nodes = {
            node: fold(node, lambda number: leaf(number, layout), add_sets)
            for node in maximal_nodes(range(count), ranks.leaves(count)[rank])
        }
        found[rank] = reduction.combine(ranks, count, nodes, layout, layout.new, add)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(shares))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, events, [transport.sent for transport in transports]


@pytest.mark.parametrize("size", [8, 16, 40, 1 << 20])
@pytest.mark.parametrize("count, shares", [(1, (1,)), (2, (1, 1)), (5, (1, 1, 1)), (7, (3, 0, 2, 1)), (1, (0, 1))])
@pytest.mark.diagonal
def test_bits_and_bytes_do_not_depend_on_buckets(
    count: int, shares: Sequence[int], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, whole = combined(count, shares)
    monkeypatch.setattr(reduction, "_BUCKET_BYTES", size)
    layout = SumLayout(KINDS, 1)
    wanted = fold(range(count), lambda number: leaf(number, layout), add_sets)
    found, events, sent = combined(count, shares)
    assert sent == whole
    for sums in found:
        for array, want in zip(sums.tensors, wanted.tensors, strict=True):
            assert array.tobytes() == want.tobytes()
    # The integer sums take 16 bytes and are sent separately, so a message may have 16 bytes even if buckets are
    # smaller.
    assert max(bytes_moved for rank in events for _, bytes_moved in rank) <= max(size, 16)


def test_the_next_bucket_moves_while_one_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "_BUCKET_BYTES", 16)
    _, events, _ = combined(2, (1, 1))
    # A slice of 8 f32 and one of 4 f64 take two buckets each. The last "move" sends the integers, all of which every
    # rank needs.
    done = "move move add move move add move move add move add move move"
    assert [" ".join(what for what, _ in rank) for rank in events] == [done] * 2
