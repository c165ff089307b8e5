# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The sums of all ranks: bytes go to the owners of slices, which finish the tree (B2), and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.distributed.ranks import Ranks
from repro_mlir.distributed.sums import Slice, SumLayout, Sums
from repro_mlir.distributed.transport import Message
from repro_mlir.distributed.tree import join, maximal_nodes

Add = Callable[[str, np.ndarray, np.ndarray], None]
"""Adds a bucket of an element type to another one, in the place of the first."""

# While a bucket is added the next one comes and the last one goes; smaller ones take longer to move.
_BUCKET_BYTES = 16 << 20


class Bucket(NamedTuple):
    """What moves at once: the elements from `start` to before `stop` of each slice of an element type, as far as it has
    them."""

    element: str
    start: int
    stop: int

    def span(self, part: Slice) -> slice:
        """Where they are in the memory of the element type, of a slice."""
        return slice(min(part.start + self.start, part.stop), min(part.start + self.stop, part.stop))

    def shared(self, part: Slice) -> slice:
        """Where those are of them that all ranks get."""
        return slice(min(part.start + self.start, part.shared), min(part.start + self.stop, part.shared))


def buckets(layout: SumLayout) -> Iterator[Bucket]:
    """What slices are made of."""
    for element, slices in layout.slices.items():
        size = _BUCKET_BYTES // ELEMENTS[element].dtype.itemsize
        for start in range(0, max(part.stop - part.start for part in slices), size):
            yield Bucket(element, start, start + size)


def lengths(layout: SumLayout, element: str, rank: int) -> set[int]:
    """Of how many elements a rank adds others, in buckets of its slice."""
    spans = (each.span(layout.slices[element][rank]) for each in buckets(layout) if each.element == element)
    return {span.stop - span.start for span in spans} - {0}


def bytes_of_all(ranks: Ranks, count: int, layout: SumLayout) -> int:
    """How many bytes all ranks together send of the sums over `count` leaves, in `combine`."""
    total, whole = 0, range(count)
    numbers = [len(maximal_nodes(whole, leaves)) for leaves in ranks.leaves(count)]
    for element, slices in layout.slices.items():
        size = ELEMENTS[element].dtype.itemsize
        for rank, part in enumerate(slices):
            coming = sum(numbers) - numbers[rank]
            total += size * (coming * (part.stop - part.start) + (ranks.size - 1) * (part.shared - part.start))
    return total


def combine(
    ranks: Ranks, count: int, nodes: Mapping[range, Sums], layout: SumLayout, make: Callable[[], Sums], add: Add
) -> Sums:
    """The sums over all leaves, the same on every rank.

    Args:
      count: how many leaves there are.
      nodes: the sums of the largest nodes of this rank's leaves, of which the memory is used.
      layout: of the sums, with a slice for each rank.
      make: gives a set of sums for the result, where this rank has no node.
      add: of buckets.
    Raises:
      RankLost: another rank is gone.
    """
    result = next(iter(nodes.values())) if nodes else make()
    theirs = [maximal_nodes(range(count), leaves) for leaves in ranks.leaves(count)]
    reduction = _Reduction(ranks, layout, nodes, theirs, result)
    parts = [*buckets(layout)]
    coming = [reduction.collect(part) for part in parts[:1]]
    going: list[Callable[[], None]] = []
    for i, part in enumerate(parts):
        known = coming.pop()()
        coming += [reduction.collect(following) for following in parts[i + 1 : i + 2]]
        reduction.join(part, range(count), known, add)
        if going:
            going.pop()()
        going.append(reduction.spread(part))
    for wait in going:
        wait()
    reduction.spread_integers()
    return result


@dataclass(frozen=True)
class _Reduction:
    """The way of the sums of one step.

    Attributes:
      theirs: by rank, the largest nodes of its leaves.
      result: the set of `nodes`, or another one, that gets the sums.
    """

    ranks: Ranks
    layout: SumLayout
    nodes: Mapping[range, Sums]
    theirs: list[list[range]]
    result: Sums

    @property
    def _others(self) -> list[int]:
        return [peer for peer in range(self.ranks.size) if peer != self.ranks.rank]

    def _part(self, sums: Sums, part: Bucket, rank: int) -> np.ndarray:
        """The bucket in the slice of a rank."""
        return sums.flat[part.element][part.span(self.layout.slices[part.element][rank])]

    def _shared(self, part: Bucket, rank: int) -> np.ndarray:
        """What all ranks get of it."""
        return self.result.flat[part.element][part.shared(self.layout.slices[part.element][rank])]

    def collect(self, part: Bucket) -> Callable[[], dict[range, np.ndarray]]:
        """Sends a bucket of this rank's nodes to its owners. What it returns waits for those of all nodes, in the slice
        of this rank."""
        own = self.ranks.rank
        sends = [
            (peer, _bytes(self._part(self.nodes[node], part, peer))) for peer in self._others for node in self.nodes
        ]
        found = {node: self._part(sums, part, own) for node, sums in self.nodes.items()}
        receives: list[Message] = []
        for peer in self._others:
            for node in self.theirs[peer]:
                found[node] = np.empty(len(self._part(self.result, part, own)), ELEMENTS[part.element].dtype)
                receives.append((peer, _bytes(found[node])))
        wait = self.ranks.transport.start(_not_empty(sends), _not_empty(receives))

        def known() -> dict[range, np.ndarray]:
            wait()
            return found

        return known

    def join(self, part: Bucket, leaves: range, known: Mapping[range, np.ndarray], add: Add) -> None:
        """Finishes the tree for a bucket in the slice of this rank."""

        def added(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            add(part.element, left, right)
            return left

        result = self._part(self.result, part, self.ranks.rank)
        if len(result) == 0:
            return
        found = join(leaves, known, added)
        if not np.may_share_memory(found, result):
            np.copyto(result, found)

    def spread(self, part: Bucket) -> Callable[[], None]:
        """Sends a bucket of the sums in the slice of this rank to all that need them, and gets theirs; what it returns
        waits."""
        own = _bytes(self._shared(part, self.ranks.rank))
        sends = [(peer, own) for peer in self._others]
        receives = [(peer, _bytes(self._shared(part, peer))) for peer in self._others]
        return self.ranks.transport.start(_not_empty(sends), _not_empty(receives))

    def spread_integers(self) -> None:
        """Gives the integers, which are equal on all ranks that have microbatches (B3), to those that have none."""
        integers = [_bytes(self.result.tensors[i].reshape(-1)) for i in self.layout.integers]
        owners = [rank for rank, found in enumerate(self.theirs) if found]
        sends: list[Message] = []
        receives: list[Message] = []
        if self.ranks.rank == owners[0]:
            sends = [(peer, data) for peer in self._others if peer not in owners for data in integers]
        elif self.ranks.rank not in owners:
            receives = [(owners[0], data) for data in integers]
        self.ranks.transport.exchange(sends, receives)


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8)


def _not_empty(messages: list[Message]) -> list[Message]:
    return [(peer, data) for peer, data in messages if len(data)]
