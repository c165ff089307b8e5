# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The tree by which the sums of microbatches are added (B2): that of RFC 6962, section 2.1, over the leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def split(leaves: range) -> tuple[range, range]:
    """The leaves on the left and on the right of a node over two or more: left is the largest power of two below."""
    middle = 1 << (len(leaves) - 1).bit_length() - 1
    return leaves[:middle], leaves[middle:]


def fold(leaves: range, leaf: Callable[[int], T], add: Callable[[T, T], T]) -> T:
    """The value of the node over some leaves, at least one: of one what `leaf` gives, else `add(left, right)`."""
    if len(leaves) == 1:
        return leaf(leaves[0])
    left, right = split(leaves)
    value = fold(left, leaf, add)
    return add(value, fold(right, leaf, add))


def maximal_nodes(leaves: range, own: range) -> list[range]:
    """The largest nodes of the tree over `leaves` that have leaves of `own` alone."""
    if not own or own.stop <= leaves.start or leaves.stop <= own.start:
        return []
    if own.start <= leaves.start and leaves.stop <= own.stop:
        return [leaves]
    left, right = split(leaves)
    return [*maximal_nodes(left, own), *maximal_nodes(right, own)]


def join(leaves: range, known: Mapping[range, T], add: Callable[[T, T], T]) -> T:
    """The value of the node over some leaves, given those of nodes below it, or its own."""
    if leaves in known:
        return known[leaves]
    left, right = split(leaves)
    value = join(left, known, add)
    return add(value, join(right, known, add))
