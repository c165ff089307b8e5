# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The sums of all ranks: bytes go to the owners of slices, which finish the tree (B2), and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..numerics.elements import ELEMENTS
from .ranks import Ranks
from .sums import SumLayout, Sums
from .tree import join, maximal_nodes

Add = Callable[[str, np.ndarray, np.ndarray], None]
"""Adds a slice of an element type to another one, in the place of the first."""


def combine(
    ranks: Ranks, count: int, nodes: Mapping[range, Sums], layout: SumLayout, make: Callable[[], Sums], add: Add
) -> Sums:
    """The sums over all leaves, the same on every rank.

    Args:
      count: how many leaves there are.
      nodes: the sums of the largest nodes of this rank's leaves, of which the memory is used.
      layout: of the sums, with a slice for each rank.
      make: gives a set of sums for the result, where this rank has no node.
      add: of slices.
    Raises:
      RankLost: another rank is gone.
    """
    own, others = ranks.rank, [peer for peer in range(ranks.size) if peer != ranks.rank]
    theirs = [maximal_nodes(range(count), leaves) for leaves in ranks.leaves(count)]
    known = {
        (node, element): layout.slice_of(flat, own)
        for node, sums in nodes.items()
        for element, flat in sums.flat.items()
    }
    sends, receives = [], []
    for peer in others:
        for node in theirs[own]:
            sends += [(peer, _bytes(layout.slice_of(flat, peer))) for flat in nodes[node].flat.values()]
        for node in theirs[peer]:
            for element, length in layout.lengths.items():
                known[node, element] = np.empty(length, ELEMENTS[element].dtype)
                receives.append((peer, _bytes(known[node, element])))
    ranks.transport.exchange(sends, receives)

    result = next(iter(nodes.values())) if nodes else make()

    def added(element: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        def run(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            add(element, left, right)
            return left

        return run

    for element, flat in result.flat.items():
        have = {node: value for (node, kind), value in known.items() if kind == element}
        layout.slice_of(flat, own)[...] = join(range(count), have, added(element))
    sends = [(peer, _bytes(layout.slice_of(flat, own))) for peer in others for flat in result.flat.values()]
    receives = [(peer, _bytes(layout.slice_of(flat, peer))) for peer in others for flat in result.flat.values()]
    # Integers are equal on all ranks that have microbatches (B3): the first of these gives them to those without.
    integers = [_bytes(result.tensors[i].reshape(-1)) for i in layout.integers]
    owners = [rank for rank, found in enumerate(theirs) if found]
    if own == owners[0]:
        sends += [(peer, data) for peer in others if peer not in owners for data in integers]
    elif own not in owners:
        receives += [(owners[0], data) for data in integers]
    ranks.transport.exchange(sends, receives)
    return result


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8)
