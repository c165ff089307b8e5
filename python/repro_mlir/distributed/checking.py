# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Leaves of the tree (B2) that a second rank computes too: what one rank alone gets wrong is found.

Rank r + 1 checks leaves of rank r. Which ones follows from the state, the inputs and the share that is asked for, so
that all ranks know them; where all leaves of a largest node of a rank are checked, so is that node.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.distributed.ranks import Agreed, Ranks
from repro_mlir.distributed.tree import maximal_nodes


@dataclass(frozen=True)
class Checks:
    """What is checked in a step.

    Attributes:
      nodes: by rank, the nodes of its leaves that are checked: single leaves, and nodes of several behind those.
    """

    nodes: tuple[tuple[range, ...], ...]

    @staticmethod
    def drawn(ranks: Ranks, count: int, seed: bytes) -> Checks:
        """The checks of a step.

        Args:
          count: how many leaves there are.
          seed: what all ranks know of the step, and nobody before it.
        """
        if ranks.check_share == 0:
            return Checks(((),) * ranks.size)
        bound = int(ranks.check_share * 2.0**32)
        found = []
        for own in ranks.leaves(count):
            leaves = {leaf: None for leaf in own if _number(seed, leaf) < bound}
            nodes = (node for node in maximal_nodes(range(count), own) if len(node) > 1)
            whole = [node for node in nodes if all(leaf in leaves for leaf in node)]
            found.append((*(range(leaf, leaf + 1) for leaf in leaves), *whole))
        return Checks(tuple(found))


def _number(seed: bytes, leaf: int) -> int:
    """From 0 to 2^32 - 1, uniform."""
    return int.from_bytes(blake3_of(b"check", seed, struct.pack("<Q", leaf))[:4], "little")


def digest_of(nodes: Sequence[range], digests: Mapping[range, bytes]) -> bytes:
    """What a rank says of nodes."""
    return blake3_of(b"nodes", *(digests[node] for node in nodes))


def checker_of(ranks: Ranks, rank: int) -> int:
    """Who checks the leaves of a rank."""
    return (rank + 1) % ranks.size


def require_right(
    ranks: Ranks,
    checks: Checks,
    said: Sequence[bytes],
    checked: Sequence[bytes],
    recompute: Callable[[Sequence[range]], bytes],
) -> None:
    """Returns where what each rank says of its nodes is what its checker has found; else all ranks compute again what
    is in question, and most of them are right.

    Args:
      said: by rank, of its own nodes.
      checked: by rank, what its checker has found of its nodes.
      recompute: gives what this rank finds of nodes.
    Raises:
      Agreed: of a ReproError that names the rank that was wrong, or both where that cannot be told.
    """
    for rank, nodes in enumerate(checks.nodes):
        if said[rank] == checked[rank]:
            continue
        found = ranks.gather(recompute(nodes))
        checker = checker_of(ranks, rank)
        claims = {rank: said[rank]} if checker == rank else {rank: said[rank], checker: checked[rank]}
        right, votes = Counter(found).most_common(1)[0]
        wrong = [each for each, claim in claims.items() if claim != right]
        leaves = f"leaves {nodes[0].start} to {max(node.stop for node in nodes) - 1}"
        if votes * 2 > ranks.size and len(wrong) == 1:
            message = f"rank {wrong[0]} of {ranks.size} has computed something wrong in {leaves} of the microbatches"
        else:
            who = " and ".join(map(str, claims))
            message = (
                f"ranks {who} of {ranks.size} differ in {leaves} of the microbatches, and who is right is not told"
            )
        raise Agreed from ReproError(message)
