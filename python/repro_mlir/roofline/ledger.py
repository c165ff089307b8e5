# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Launches that were measured, beside what is predicted of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


class PredictedLaunch(Protocol):
    """A launch of a CPU or a GPU."""

    @property
    def seconds(self) -> float:
        """How long it takes."""

    @property
    def causes(self) -> dict[str, float]:
        """What it takes its time for."""


@dataclass(frozen=True)
class LedgerEntry:
    """A launch: what is predicted and what was measured.

    Attributes:
      predicted: by cause.
      seconds: what was measured.
      counts: what was counted of it, by the name of the event.
    """

    predicted: PredictedLaunch
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def unknown(self) -> float:
        """Seconds that no cause explains; below 0 where a launch is faster than predicted."""
        return self.seconds - self.predicted.seconds


def unsigned_unknown(entries: Iterable[LedgerEntry]) -> float:
    """Seconds that no cause explains, of all launches without their signs: too much and too little both count."""
    return sum(abs(each.unknown) for each in entries)


def median_error(entries: Iterable[LedgerEntry]) -> float:
    """The median of the error of the prediction as a part of what was measured, each launch counted by its time."""
    errors = sorted((abs(each.unknown) / each.seconds, each.seconds) for each in entries if each.seconds)
    half, passed = sum(seconds for _, seconds in errors) / 2, 0.0
    for error, seconds in errors:
        passed += seconds
        if passed >= half:
            return error
    return 0.0
