# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Merkle trees of labelled digests, with proofs that a leaf is in a tree.

All hashes are BLAKE3 with 32 bytes. The input of each type of hash starts with a distinct prefix of 16 bytes (domain
separation).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import blake3

_LEAF = b"repro-leaf-v1\0\0\0"
_NODE = b"repro-node-v1\0\0\0"
_ROOT = b"repro-root-v1\0\0\0"


def leaf(label: str, digest: bytes) -> bytes:
    """(C1) Returns the leaf that states that the object named `label` has this digest.

    Args:
      label: a name that is unique in the tree.
      digest: 32 bytes.
    """
    name = label.encode()
    return blake3.blake3(_LEAF + struct.pack("<I", len(name)) + name + digest).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """(C2) Returns the root of a tree over one or more leaves, in the given order.

    Siblings are joined level by level; a last node without a sibling moves up unchanged. The root also covers the
    number of leaves, so that a proof determines the index of its leaf.
    """
    return seal(len(leaves), levels(leaves)[-1][0])


def levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """(C2) Returns all nodes of a tree, level by level from the leaves to the top node."""
    if not leaves:
        raise ValueError("expected at least one leaf")
    found = [list(leaves)]
    while len(found[-1]) > 1:
        found.append(_join(found[-1]))
    return found


def prove(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """(C2) Returns the siblings on the path from a leaf to the root: at most ceil(log2(number of leaves))."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"expected the number of a leaf below {len(leaves)}, got {index}")
    return path(levels(leaves), index)


def path(levels: Sequence[Sequence[bytes]], index: int) -> tuple[bytes, ...]:
    """(C2) Returns the proof for leaf `index` that `prove` returns, given all nodes of the tree (see `levels`)."""
    found = []
    for level in levels[:-1]:
        if index ^ 1 < len(level):
            found.append(level[index ^ 1])
        index //= 2
    return tuple(found)


def proves(path: Sequence[bytes], leaf: bytes, index: int, count: int, root: bytes) -> bool:
    """(C2) Returns whether `path` proves that `leaf` has index `index` among the `count` leaves under `root`."""
    if not 0 <= index < count:
        return False
    here, width, rest = leaf, count, list(path)
    while width > 1:
        if index ^ 1 < width:
            if not rest:
                return False
            neighbour = rest.pop(0)
            here = node(here, neighbour) if index % 2 == 0 else node(neighbour, here)
        index, width = index // 2, (width + 1) // 2
    return not rest and seal(count, here) == root


def _join(level: list[bytes]) -> list[bytes]:
    joined = [node(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
    return joined + level[2 * len(joined) :]


def node(left: bytes, right: bytes) -> bytes:
    """(C2) Returns the parent of two sibling nodes."""
    return blake3.blake3(_NODE + left + right).digest()


def seal(count: int, top: bytes) -> bytes:
    """(C2) Returns the root of a tree with `count` leaves and the top node `top`."""
    return blake3.blake3(_ROOT + struct.pack("<Q", count) + top).digest()
