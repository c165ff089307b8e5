# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The binary tree in which the sums of microbatches are added (B2). Its leaves are the microbatches, and its shape is
that of RFC 6962, section 2.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def split(leaves: range) -> tuple[range, range]:
    """Returns the leaves of the two children of a node with n >= 2 leaves. The number of leaves of the left child is
    the largest power of two below n."""
    middle = 1 << (len(leaves) - 1).bit_length() - 1
    return leaves[:middle], leaves[middle:]


def fold(leaves: range, leaf: Callable[[int], T], add: Callable[[T, T], T]) -> T:
    """Evaluates the tree over `leaves`: `leaf(number)` for a leaf, `add(left, right)` for a node with two children."""
    if len(leaves) == 1:
        return leaf(leaves[0])
    left, right = split(leaves)
    value = fold(left, leaf, add)
    return add(value, fold(right, leaf, add))


def maximal_nodes(leaves: range, own: range) -> list[range]:
    """Returns the largest nodes of the tree over `leaves` whose leaves are all in `own`."""
    if not own or own.stop <= leaves.start or leaves.stop <= own.start:
        return []
    if own.start <= leaves.start and leaves.stop <= own.stop:
        return [leaves]
    left, right = split(leaves)
    return [*maximal_nodes(left, own), *maximal_nodes(right, own)]


def join(leaves: range, known: Mapping[range, T], add: Callable[[T, T], T]) -> T:
    """Evaluates the tree over `leaves` from the known values of nodes that together cover all leaves."""
    if leaves in known:
        return known[leaves]
    left, right = split(leaves)
    value = join(left, known, add)
    return add(value, join(right, known, add))
