# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(B2) The sum tree has the same shape for every assignment of leaves to ranks."""

import itertools
import random

import pytest
from loopback import make_loopback
from repro_mlir.base.errors import ReproError
from repro_mlir.distributed import Ranks
from repro_mlir.distributed.tree import fold, join, maximal_nodes


def add(left: str, right: str) -> str:
    return f"({left} {right})"


def test_the_left_side_is_the_largest_power_of_two() -> None:
    known = {1: "0", 2: "(0 1)", 3: "((0 1) 2)", 5: "(((0 1) (2 3)) 4)", 6: "(((0 1) (2 3)) (4 5))"}
    for count, tree in known.items():
        assert fold(range(count), str, add) == tree


def test_any_division_of_the_leaves_gives_the_tree() -> None:
    draw = random.Random(1)
    for count in (1, 2, 3, 5, 7, 8, 64, 96, 100):
        whole = range(count)
        for size in range(1, 17):
            shares = tuple(draw.randrange(1, 9) for _ in range(size))
            owned = Ranks(make_loopback(size)[0], shares).leaves(count)
            assert list(itertools.chain(*owned)) == list(whole)
            nodes = [maximal_nodes(whole, own) for own in owned]
            for own, found in zip(owned, nodes, strict=True):
                assert list(itertools.chain(*found)) == list(own)
            known = {node: fold(node, str, add) for node in itertools.chain(*nodes)}
            assert join(whole, known, add) == fold(whole, str, add)


def test_one_node_each_where_the_ranks_are_a_power_of_two() -> None:
    for count, size in ((64, 8), (96, 3), (96, 6), (96, 12), (80, 5)):
        owned = Ranks(make_loopback(size)[0]).leaves(count)
        assert all(len(maximal_nodes(range(count), own)) == 1 for own in owned), (count, size)


@pytest.mark.parametrize("shares", [(1,), (1, 2, 3), (0, 0), (1, -1), (1.0, 1.0)])
def test_shares_that_are_none(shares: tuple[int, ...]) -> None:
    with pytest.raises(ReproError, match="expected"):
        Ranks(make_loopback(2)[0], shares)
