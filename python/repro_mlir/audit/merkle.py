# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Merkle trees of labelled digests, with proofs that a leaf is in a tree.

All hashes are BLAKE3 with 32 bytes. Each kind of hash begins with 16 bytes of its own, so that none passes for another.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import blake3

_LEAF = b"repro-leaf-v1\0\0\0"
_NODE = b"repro-node-v1\0\0\0"
_ROOT = b"repro-root-v1\0\0\0"


def leaf(label: str, digest: bytes) -> bytes:
    """(C1) The leaf that says that the thing named `label` has this digest.

    Args:
      label: unique in its tree.
      digest: 32 bytes.
    """
    name = label.encode()
    return blake3.blake3(_LEAF + struct.pack("<I", len(name)) + name + digest).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """(C2) The root of a tree over the leaves in their order, at least one.

    Neighbours are joined level by level; a last node without neighbour goes up as it is. The root also covers the
    number of leaves, so that a leaf's place in the tree is one.
    """
    return seal(len(leaves), levels(leaves)[-1][0])


def levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """(C2) All nodes of a tree: the leaves, the level above them, and so on to the one at the top."""
    if not leaves:
        raise ValueError("expected at least one leaf")
    found = [list(leaves)]
    while len(found[-1]) > 1:
        found.append(_join(found[-1]))
    return found


def prove(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """(C2) The neighbours on the way from a leaf to the root: at most log2 of the number of leaves, rounded up."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"expected the number of a leaf below {len(leaves)}, got {index}")
    return path(levels(leaves), index)


def path(levels: Sequence[Sequence[bytes]], index: int) -> tuple[bytes, ...]:
    """(C2) `prove`, from the nodes of the tree."""
    found = []
    for level in levels[:-1]:
        if index ^ 1 < len(level):
            found.append(level[index ^ 1])
        index //= 2
    return tuple(found)


def proves(path: Sequence[bytes], leaf: bytes, index: int, count: int, root: bytes) -> bool:
    """(C2) Whether `path` shows that `leaf` is number `index` of the `count` leaves under `root`."""
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
    """(C2) The node above two neighbours."""
    return blake3.blake3(_NODE + left + right).digest()


def seal(count: int, top: bytes) -> bytes:
    """(C2) The root of a tree with `count` leaves and the node `top` above them all."""
    return blake3.blake3(_ROOT + struct.pack("<Q", count) + top).digest()
