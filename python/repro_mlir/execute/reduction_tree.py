# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The tree by which the sums of microbatches are added (B2): that of RFC 6962, section 2.1, over the leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def split(count: int) -> int:
    """How many of `count` leaves, 2 or more, are on the left: the largest power of two below it."""
    return 1 << (count - 1).bit_length() - 1


def fold(leaves: range, leaf: Callable[[int], T], add: Callable[[T, T], T]) -> T:
    """The value of the node over some leaves, at least one: of one what `leaf` gives, else `add(left, right)`."""
    if len(leaves) == 1:
        return leaf(leaves[0])
    middle = split(len(leaves))
    left = fold(leaves[:middle], leaf, add)
    return add(left, fold(leaves[middle:], leaf, add))
