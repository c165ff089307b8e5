# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The tree that adds the sums of microbatches (B2): the tree of RFC 6962, section 2.1, over the leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def split(leaves: range) -> tuple[range, range]:
    """Splits the leaves of a node over n >= 2 leaves: the left child gets the largest power of two below n."""
    middle = 1 << (len(leaves) - 1).bit_length() - 1
    return leaves[:middle], leaves[middle:]


def fold(leaves: range, leaf: Callable[[int], T], add: Callable[[T, T], T]) -> T:
    """Returns the value of the node over one or more leaves: `leaf(number)` for one leaf, else `add(left, right)`."""
    if len(leaves) == 1:
        return leaf(leaves[0])
    left, right = split(leaves)
    value = fold(left, leaf, add)
    return add(value, fold(right, leaf, add))


def maximal_nodes(leaves: range, own: range) -> list[range]:
    """Returns the maximal nodes of the tree over `leaves` that have only leaves of `own`."""
    if not own or own.stop <= leaves.start or leaves.stop <= own.start:
        return []
    if own.start <= leaves.start and leaves.stop <= own.stop:
        return [leaves]
    left, right = split(leaves)
    return [*maximal_nodes(left, own), *maximal_nodes(right, own)]


def join(leaves: range, known: Mapping[range, T], add: Callable[[T, T], T]) -> T:
    """Returns the value of the node over `leaves` from known values of nodes below it, or its own known value."""
    if leaves in known:
        return known[leaves]
    left, right = split(leaves)
    value = join(left, known, add)
    return add(value, join(right, known, add))
