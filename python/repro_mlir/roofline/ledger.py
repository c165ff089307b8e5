# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares measured launches with their predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from repro_mlir.roofline.predicted import PredictedStep, PredictedTime


@dataclass(frozen=True)
class LedgerEntry:
    """The prediction and the measurement of one launch, or of a whole step.

    Attributes:
      predicted: the prediction, with seconds by cause.
      seconds: the measured time.
      counts: hardware and kernel event counts of the launch, by event name.
    """

    predicted: PredictedTime | PredictedStep[Any, Any]
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def unknown(self) -> float:
        """The part of the time, in seconds, that no cause explains; negative if the launch is faster than predicted."""
        return self.seconds - self.predicted.seconds


def unsigned_unknown(entries: Iterable[LedgerEntry]) -> float:
    """Returns the sum of the absolute unexplained seconds of all launches, so that errors of opposite sign do not
    cancel."""
    return sum(abs(each.unknown) for each in entries)


def median_error(entries: Iterable[LedgerEntry]) -> float:
    """Returns the weighted median of the predictions' relative errors; the weight of a launch is its measured time."""
    errors = sorted((abs(each.unknown) / each.seconds, each.seconds) for each in entries if each.seconds)
    half, passed = sum(seconds for _, seconds in errors) / 2, 0.0
    for error, seconds in errors:
        passed += seconds
        if passed >= half:
            return error
    return 0.0
