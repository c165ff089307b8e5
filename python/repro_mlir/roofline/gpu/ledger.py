# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The gap between how long a step takes on a GPU and what is predicted, by a file of benchmarks/gpu/run.py."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ReproError
from ...field_checks import shown
from ...files import json_text
from ...files.regular import read_regular
from .prediction import GpuStepPrediction

_LIMIT = 1 << 24


@dataclass(frozen=True)
class GpuLedger:
    """A step that was measured as a whole.

    Attributes:
      predicted: by cause.
      seconds: what was measured.
      device: on what.
      entries: of launches, which nobody measured.
    """

    predicted: GpuStepPrediction
    seconds: float
    device: str
    entries: tuple[()] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """How it was measured, by name."""
        return {"measured_on": self.device}

    @property
    def how(self) -> str:
        """The same in words."""
        return f"on {self.device}"

    @property
    def causes(self) -> dict[str, float]:
        """Seconds by cause, and `unknown`: they add up to `seconds`."""
        return {**self.predicted.causes, "unknown": self.seconds - self.predicted.seconds}

    @property
    def unsigned_unknown(self) -> float:
        """Seconds that no cause explains, without their sign; those of launches are not known."""
        return abs(self.seconds - self.predicted.seconds)

    @property
    def median_error(self) -> float:
        """The error of the prediction as a part of what was measured."""
        return self.unsigned_unknown / self.seconds


def read_measured(path: str | Path, name: str, prediction: GpuStepPrediction) -> GpuLedger:
    """Joins a prediction with what CUDA events have timed.

    Args:
      path: of the results of benchmarks/gpu/run.py.
      name: of the row, with any signs for those that are no letters, digits, `-` or `_`: bundles are called so.
    Raises:
      ReproError: another file, no row of that name, or one without a time.
    """
    report = json_text.parse(read_regular(path, _LIMIT), str(path), _LIMIT)
    parts = report.get("parts", {}) if isinstance(report, dict) else None
    rows = parts.get("speed", []) if isinstance(parts, dict) else None
    if not isinstance(rows, list):
        raise ReproError(f"{path}: expected results of benchmarks/gpu/run.py")
    found = [row for row in rows if isinstance(row, dict) and _plain(str(row.get("name"))) == _plain(name)]
    if len(found) != 1:
        names = sorted({str(row.get("name")) for row in rows if isinstance(row, dict)})
        raise ReproError(f"{path}: expected one row {shown(name)}, got {len(found)} among {', '.join(names) or 'none'}")
    time = found[0].get("ours_ms")
    if not isinstance(time, int | float) or isinstance(time, bool) or not math.isfinite(time) or not 0 < time < 1e9:
        raise ReproError(f"{path}: expected ours_ms of {shown(name)} as milliseconds, got {shown(time)}")
    facts = report.get("facts")
    device = facts.get("device") if isinstance(facts, dict) else None
    return GpuLedger(prediction, time * 1e-3, device if isinstance(device, str) else "a GPU")


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)
