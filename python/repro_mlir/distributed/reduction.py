# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Combines the sums of all ranks. Each rank finishes the additions of the tree (B2) for its slice of the elements, and
sends the result to the other ranks."""

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
"""Adds the second bucket to the first one in place; the string is their element type."""

# The size of a bucket. While one bucket is received, the one before it is added and the one before that is sent.
# Smaller buckets would need more time per byte.
_BUCKET_BYTES = 16 << 20


class Bucket(NamedTuple):
    """The unit of an exchange: the elements at the offsets start to stop - 1 of the slice of each rank, for one element
    type. Offsets after the end of a slice are left out."""

    element: str
    start: int
    stop: int

    def span(self, part: Slice) -> slice:
        """Returns the bucket's elements in one slice, as a range of the flat memory of the element type."""
        return slice(min(part.start + self.start, part.stop), min(part.start + self.stop, part.stop))

    def shared(self, part: Slice) -> slice:
        """Returns the part of `span` that all ranks need."""
        return slice(min(part.start + self.start, part.shared), min(part.start + self.stop, part.shared))


def buckets(layout: SumLayout) -> Iterator[Bucket]:
    """Yields all buckets, by element type and then by offset."""
    for element, slices in layout.slices.items():
        size = _BUCKET_BYTES // ELEMENTS[element].dtype.itemsize
        for start in range(0, max(part.stop - part.start for part in slices), size):
            yield Bucket(element, start, start + size)


def lengths(layout: SumLayout, element: str, rank: int) -> set[int]:
    """Returns the lengths of the arrays that a rank may add: the numbers of elements that a bucket has in the rank's
    slice."""
    spans = (each.span(layout.slices[element][rank]) for each in buckets(layout) if each.element == element)
    return {span.stop - span.start for span in spans} - {0}


def bytes_of_all(ranks: Ranks, count: int, layout: SumLayout) -> int:
    """Returns the number of bytes of float sums that all ranks together send in `combine` if a step has `count`
    leaves."""
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
    """Reduces the sums of all ranks. Returns the sums over all leaves; they are equal on every rank.

    Args:
      count: the number of leaves.
      nodes: the sums of the maximal nodes of this rank's leaves. Their memory is overwritten.
      layout: the layout of the sums, with a slice for each rank.
      make: allocates the set of sums for the result; called only if this rank has no node.
      add: adds the elements of two buckets.
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
    """The reduction of one step.

    Attributes:
      theirs: for each rank, the maximal nodes of its leaves, see `maximal_nodes`.
      result: the set that receives the sums over all leaves, which is one of `nodes` or a new one.
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
        """Returns those elements of `sums` that are in both the bucket and the slice of a rank."""
        return sums.flat[part.element][part.span(self.layout.slices[part.element][rank])]

    def _shared(self, part: Bucket, rank: int) -> np.ndarray:
        """Returns those elements of the result that are in both the bucket and the slice of a rank, and that all ranks
        need."""
        return self.result.flat[part.element][part.shared(self.layout.slices[part.element][rank])]

    def collect(self, part: Bucket) -> Callable[[], dict[range, np.ndarray]]:
        """Starts to send a bucket of this rank's nodes: to each other rank, the elements in that rank's slice. Returns
        a function that waits, and then returns the elements in this rank's own slice for the nodes of all ranks."""
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
        """Adds the nodes' elements that are in both the bucket and this rank's slice, up to the root of the tree, and
        stores the sums in the result."""

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
        """Starts to send this rank's slice of a bucket of the result to the other ranks, and to receive their slices.
        Returns a function that waits until all of these transfers are complete."""
        own = _bytes(self._shared(part, self.ranks.rank))
        sends = [(peer, own) for peer in self._others]
        receives = [(peer, _bytes(self._shared(part, peer))) for peer in self._others]
        return self.ranks.transport.start(_not_empty(sends), _not_empty(receives))

    def spread_integers(self) -> None:
        """Sends the integer tensors to the ranks without microbatches. All other ranks have equal integer tensors
        (B3)."""
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
