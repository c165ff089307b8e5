# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The performance goals of groups of rows, and the code that checks whether the rows meet them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from case import OURS, PLAIN

Row = Mapping[str, Any]

_VNNI = "-vnni"


@dataclass(frozen=True)
class Goal:
    """The required speed of a group of rows, relative to the best peer.

    Attributes:
      group: name of the group (`Case.group`).
      least: the required geometric mean of the ratios of the peer's time to ours.
      level: CPU level of the rows; a goal for x86-64-v4 also applies to x86-64-v4-vnni. None for any level.
      peers: the peers with which we are compared; empty for all.
      floor: the required ratio of each single row.
    """

    group: str
    least: float
    level: str | None = None
    peers: tuple[str, ...] = ()
    floor: float = 0.0


GOALS = (
    Goal("matmul", 1.0, "x86-64-v4", floor=0.85),
    Goal("matmul", 1.05, "x86-64-v3", ("torch",)),
    # These goals are relative to our own float32 code (PLAIN), not to a peer.
    Goal("accumulator hopper", 1 / 4, "x86-64-v4"),
    Goal("accumulator ampere", 1 / 5, "x86-64-v4"),
    Goal("accumulator volta", 1 / 7, "x86-64-v4"),
    Goal("accumulator hopper", 1 / 4, "x86-64-v3"),
    Goal("accumulator ampere", 1 / 5, "x86-64-v3"),
    Goal("accumulator volta", 1 / 7, "x86-64-v3"),
    Goal("blocks mxint8", 1.5, "x86-64-v4-vnni", (PLAIN,)),
    Goal("blocks mxfp4", 1.5, "x86-64-v4-vnni", (PLAIN,)),
    Goal("blocks mxfp6 e2m3", 1.5, "x86-64-v4-vnni", (PLAIN,)),
    Goal("blocks mxfp6", 1.5, "x86-64-v4-vnni", (PLAIN,)),
    Goal("blocks nvfp4", 1.5, "x86-64-v4-vnni", (PLAIN,)),
    Goal("blocks mxfp4", 1.0, "x86-64-v3", (PLAIN,)),
    Goal("blocks mxfp6 e2m3", 1.0, "x86-64-v3", (PLAIN,)),
    Goal("blocks nvfp4", 1.0, "x86-64-v3", (PLAIN,)),
    Goal("linear blocks_mxint8", 1.0, "x86-64-v4-vnni", (PLAIN,)),
    Goal("linear blocks_mxfp4", 1.0, "x86-64-v4-vnni", (PLAIN,)),
    Goal("linear blocks_mxfp6", 1.0, "x86-64-v4-vnni", (PLAIN,)),
    Goal("linear blocks_nvfp4", 1.0, "x86-64-v4-vnni", (PLAIN,)),
    Goal("low precision GPT hopper", 1 / 3.5, "x86-64-v4", (PLAIN,)),
    Goal("convolution", 0.95),
    Goal("normalization", 1.1, "x86-64-v4"),
    Goal("optimizer", 1.2, peers=("fused",)),
    Goal("step GPT", 1.6, "x86-64-v4"),
    Goal("step GPT", 1.05, "x86-64-v3"),
    Goal("step ResNet-18", 1.0, peers=("torch",)),
    Goal("step MLP", 1.2, peers=("torch",)),
    Goal("memory", 1 / 1.1, peers=("torch",), floor=1 / 1.1),
)
# The maximum number of seconds for each contestant in the rows of the group "compile".
COMPILE_LIMITS = {OURS: 30.0, "from cache": 1.0}
# Figures in a row that are additional measurements, not the times of peers.
_NO_PEERS = {"ours whole", "ours with state", "torch with state", "arena", "capture", "from cache"}


def ratio(row: Row, figure: str = "median", peers: Sequence[str] = ()) -> float | None:
    """Returns the best peer's figure (a time or memory) divided by ours, or None if the row has no peer. We are better
    if the quotient is above 1."""
    figures = row["figures"]
    others = [name for name in figures if name != OURS and name not in _NO_PEERS and (not peers or name in peers)]
    if not others or OURS not in figures:
        return None
    return min(figures[name][figure] for name in others) / figures[OURS][figure]


def geometric_mean(values: Iterable[float]) -> float:
    """Returns the geometric mean of positive values."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


@dataclass(frozen=True)
class Verdict:
    """The result of comparing a goal with the measured ratios at one CPU level and number of threads."""

    goal: Goal
    level: str
    threads: int
    rows: int
    mean: float
    least: float
    worst: str

    @property
    def met(self) -> bool:
        """Whether the geometric mean of the ratios and the smallest ratio reach the goal."""
        return self.mean >= self.goal.least and self.least >= self.goal.floor


def verdicts(rows: Sequence[Row], figure: str = "median") -> list[Verdict]:
    """Returns each goal's verdict for each measured CPU level and number of threads."""
    found = []
    settings = {(row["level"], row["threads"]) for row in rows}
    for goal in GOALS:
        for level, threads in sorted(settings, key=lambda s: (not s[0].startswith("x86-64-v4"), s)):
            if goal.level not in (None, level, level.removesuffix(_VNNI)):
                continue
            ratios = {
                row["name"]: value
                for row in rows
                if (row["group"], row["level"], row["threads"]) == (goal.group, level, threads)
                and (value := ratio(row, figure, goal.peers)) is not None
            }
            if ratios:
                worst = min(ratios, key=ratios.__getitem__)
                mean = geometric_mean(ratios.values())
                found.append(Verdict(goal, level, threads, len(ratios), mean, ratios[worst], worst))
    return found
