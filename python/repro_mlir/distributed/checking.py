# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds errors of a single rank: rank r + 1 recomputes some of the leaves (B2) of rank r, and the digests are compared.

The checked leaves are drawn from the state and the inputs, so all ranks know them. If all leaves of a maximal node of a
rank are checked, so is the node.
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
    """The checks of a step.

    Attributes:
      nodes: for each rank, the nodes of the tree (B2) that it computes and another rank checks: single leaves first,
        then nodes of several leaves.
    """

    nodes: tuple[tuple[range, ...], ...]

    @staticmethod
    def drawn(ranks: Ranks, count: int, seed: bytes) -> Checks:
        """Returns the checks of a step: drawn leaves, and the nodes whose leaves are all checked.

        Args:
          count: the number of leaves.
          seed: bytes that are equal on all ranks and unpredictable before the step.
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
    """Returns a pseudorandom number from 0 to 2^32 - 1 that depends on the seed and the leaf."""
    return int.from_bytes(blake3_of(b"check", seed, struct.pack("<Q", leaf))[:4], "little")


def digest_of(nodes: Sequence[range], digests: Mapping[range, bytes]) -> bytes:
    """Combines the digests of several nodes into the digest that a rank reports."""
    return blake3_of(b"nodes", *(digests[node] for node in nodes))


def checker_of(ranks: Ranks, rank: int) -> int:
    """Returns the rank that checks leaves of `rank`."""
    return (rank + 1) % ranks.size


def require_right(
    ranks: Ranks,
    checks: Checks,
    said: Sequence[bytes],
    checked: Sequence[bytes],
    recompute: Callable[[Sequence[range]], bytes],
) -> None:
    """Compares each rank's digest of its own nodes with the digest that its checker has computed. If two differ, all
    ranks compute these nodes again, and the majority is right.

    Args:
      said: for each rank, the digest that it has reported for its own nodes.
      checked: for each rank, the digest that its checker has reported for the same nodes.
      recompute: computes the given nodes on this rank and returns their digest.
    Raises:
      Agreed: two digests differ; the cause is a ReproError that names the wrong rank, or both ranks if there is no
        majority.
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
            message = f"rank {wrong[0]} of {ranks.size} has computed wrong results in {leaves} of the microbatches"
        else:
            who = " and ".join(map(str, claims))
            message = (
                f"ranks {who} of {ranks.size} differ in {leaves} of the microbatches, "
                "and no majority shows which is wrong"
            )
        raise Agreed from ReproError(message)
