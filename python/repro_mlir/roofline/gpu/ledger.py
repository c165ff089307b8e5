# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the measured time of a step on a GPU, from results of benchmarks/gpu/run.py, with its prediction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import shown
from repro_mlir.base.files import json_text
from repro_mlir.base.files.regular import read_regular
from repro_mlir.roofline.gpu.prediction import GpuStepPrediction
from repro_mlir.roofline.ledger import LedgerEntry, median_error, unsigned_unknown

_LIMIT = 1 << 24
# The bounds of measured times, in any unit, which keep quotients of times finite.
_LEAST, _MOST = 1e-9, 1e9


@dataclass(frozen=True)
class GpuLedger:
    """The measurement of a step.

    Attributes:
      predicted: the prediction, with seconds by cause.
      seconds: the measured time.
      device: the name of the measured device.
      is_same_code: True if the results record the digest of the predicted code (another digest is an error). False if
        they record no digest: then only the name and, for measured launches, the kernel names were compared.
      entries: the launches of the step in order, with times that add up to `seconds`; empty if only the whole step was
        measured.
    """

    predicted: GpuStepPrediction
    seconds: float
    device: str
    is_same_code: bool
    entries: tuple[LedgerEntry, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """The conditions of the measurement, by name."""
        return {"measured_on": self.device, "measured_code": "the same" if self.is_same_code else "not recorded"}

    @property
    def how(self) -> str:
        """The conditions of the measurement in words."""
        return f"on {self.device}{'' if self.is_same_code else ', by code that is not recorded'}"

    @property
    def causes(self) -> dict[str, float]:
        """Seconds by cause, including `unknown`; their sum is `seconds`."""
        return {**self.predicted.causes, "unknown": self.seconds - self.predicted.seconds}

    @property
    def unsigned_unknown(self) -> float:
        """The absolute seconds that no cause explains, summed over the measured launches; if only the whole step was
        measured, those of the step."""
        return unsigned_unknown(self.entries or [self._whole])

    @property
    def median_error(self) -> float:
        """The median relative error of the predicted launches; if only the whole step was measured, the relative error
        of the predicted step."""
        return median_error(self.entries or [self._whole])

    @property
    def _whole(self) -> LedgerEntry:
        return LedgerEntry(self.predicted, self.seconds)


def read_measured(path: str | Path, name: str, prediction: GpuStepPrediction) -> GpuLedger:
    """Combines a prediction with a measurement on a GPU.

    Args:
      path: the results of benchmarks/gpu/run.py.
      name: the name of the row. As in names of bundles, characters other than letters, digits, `-` and `_` count as
        equal.
    Raises:
      ReproError: not such a file, results of another architecture or of other code, no row of that name, or a row
        without a time.
    """
    report = json_text.parse(read_regular(path, _LIMIT), str(path), _LIMIT)
    parts = report.get("parts") if isinstance(report, dict) else None
    facts = report.get("facts") if isinstance(report, dict) else None
    if not isinstance(parts, dict) or not isinstance(facts, dict):
        raise ReproError(f"{path}: expected results of benchmarks/gpu/run.py")
    if facts.get("architecture") != prediction.machine.architecture:
        raise ReproError(
            f"{path}: expected results of {prediction.machine.architecture}, got {shown(facts.get('architecture'))}"
        )
    device = facts.get("device")
    device = device if isinstance(device, str) else "a GPU"
    rows = {part: _rows(parts, part) for part in ("launches", "speed")}
    found = {part: [row for row in rows[part] if _plain(str(row.get("name"))) == _plain(name)] for part in rows}
    what = f"{path}: {name}"
    if len(found["launches"]) == 1:
        return _of_launches(found["launches"][0], what, prediction, device)
    if len(found["speed"]) == 1:
        (row,) = found["speed"]
        is_same = _is_same_code(row, what, prediction)
        return GpuLedger(prediction, 1e-3 * _number(row.get("ours_ms"), what), device, is_same)
    names = sorted({str(row.get("name")) for part in rows.values() for row in part})
    count = sum(map(len, found.values()))
    raise ReproError(f"{path}: expected one row named {shown(name)}, got {count} among {', '.join(names) or 'none'}")


def _rows(parts: dict[str, Any], part: str) -> list[dict[str, Any]]:
    rows = parts.get(part, [])
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _number(value: object, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not _LEAST <= value < _MOST:
        raise ReproError(f"{what}: expected a time, got {shown(value)}")
    return float(value)


def _is_same_code(row: dict[str, Any], what: str, prediction: GpuStepPrediction) -> bool:
    """Returns whether the row records a digest of its code; rows of older results do not. Raises ReproError for a
    digest of other code than the predicted code."""
    digest = row.get("digest")
    if digest not in (None, prediction.digest):
        raise ReproError(f"{what}: expected a measurement of the predicted code, got one of other PTX or another plan")
    return digest is not None


def _of_launches(row: dict[str, Any], what: str, prediction: GpuStepPrediction, device: str) -> GpuLedger:
    kernels, times = row.get("kernels"), row.get("us")
    is_same = _is_same_code(row, what, prediction)
    if kernels != [launch.kernel for launch in prediction.launches]:
        raise ReproError(f"{what}: expected launches of the predicted kernels, got those of other code")
    if not isinstance(times, list) or len(times) != len(prediction.launches):
        raise ReproError(f"{what}: expected a time for each launch")
    seconds = 1e-3 * _number(row.get("step_ms"), what)
    launches = _added_up([1e-6 * _number(each, what) for each in times], seconds)
    entries = zip(prediction.launches, launches, strict=True)
    return GpuLedger(prediction, seconds, device, is_same, tuple(LedgerEntry(*entry) for entry in entries))


def _added_up(launches: list[float], seconds: float) -> list[float]:
    """Returns the measured launch times, changed so that they add up to the time of the step.

    Idle time is divided evenly among the launches. The profiler does not measure the same steps as the clock; if the
    launches together take longer than the step, all are scaled down proportionally.
    """
    busy = sum(launches)
    if busy > seconds:
        return [each * seconds / busy for each in launches]
    return [each + (seconds - busy) / len(launches) for each in launches]


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)
