# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The gap between how long a step takes on a GPU and what is predicted, by a file of benchmarks/gpu/run.py."""

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
# Of times in any unit, so that their quotients are finite.
_LEAST, _MOST = 1e-9, 1e9


@dataclass(frozen=True)
class GpuLedger:
    """A step that was measured.

    Attributes:
      predicted: by cause.
      seconds: what was measured.
      device: on what.
      is_same_code: whether the results tell their code, which is the predicted one; otherwise nothing but a name says
        so, and the names of the kernels where there are launches.
      entries: of its launches, in order, which add up to `seconds`; none where the step was measured as a whole.
    """

    predicted: GpuStepPrediction
    seconds: float
    device: str
    is_same_code: bool
    entries: tuple[LedgerEntry, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """How it was measured, by name."""
        return {"measured_on": self.device, "measured_code": "the same" if self.is_same_code else "not recorded"}

    @property
    def how(self) -> str:
        """The same in words."""
        return f"on {self.device}{'' if self.is_same_code else ', by code that is not recorded'}"

    @property
    def causes(self) -> dict[str, float]:
        """Seconds by cause, and `unknown`: they add up to `seconds`."""
        return {**self.predicted.causes, "unknown": self.seconds - self.predicted.seconds}

    @property
    def unsigned_unknown(self) -> float:
        """Seconds that no cause explains, without signs: of each launch, or of the step."""
        return unsigned_unknown(self.entries or [self._whole])

    @property
    def median_error(self) -> float:
        """The error of the prediction as a part of what was measured: the median of the launches, or of the step."""
        return median_error(self.entries or [self._whole])

    @property
    def _whole(self) -> LedgerEntry:
        return LedgerEntry(self.predicted, self.seconds)


def read_measured(path: str | Path, name: str, prediction: GpuStepPrediction) -> GpuLedger:
    """Joins a prediction with what was measured on a GPU.

    Args:
      path: of the results of benchmarks/gpu/run.py.
      name: of the row, with any signs for those that are no letters, digits, `-` or `_`: bundles are called so.
    Raises:
      ReproError: another file, results of another architecture or of other code, no row of that name, or one without a
        time.
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
    raise ReproError(f"{path}: expected one row {shown(name)}, got {count} among {', '.join(names) or 'none'}")


def _rows(parts: dict[str, Any], part: str) -> list[dict[str, Any]]:
    rows = parts.get(part, [])
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _number(value: object, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not _LEAST <= value < _MOST:
        raise ReproError(f"{what}: expected a time, got {shown(value)}")
    return float(value)


def _is_same_code(row: dict[str, Any], what: str, prediction: GpuStepPrediction) -> bool:
    """Whether the row tells its code. Results from before rows told it do not."""
    digest = row.get("digest")
    if digest not in (None, prediction.digest):
        raise ReproError(f"{what}: expected the code that is predicted, got other PTX, or another plan")
    return digest is not None


def _of_launches(row: dict[str, Any], what: str, prediction: GpuStepPrediction, device: str) -> GpuLedger:
    kernels, times = row.get("kernels"), row.get("us")
    is_same = _is_same_code(row, what, prediction)
    if kernels != [launch.kernel for launch in prediction.launches]:
        raise ReproError(f"{what}: expected launches of the kernels that are predicted, got those of other code")
    if not isinstance(times, list) or len(times) != len(prediction.launches):
        raise ReproError(f"{what}: expected a time of each launch")
    seconds = 1e-3 * _number(row.get("step_ms"), what)
    launches = _added_up([1e-6 * _number(each, what) for each in times], seconds)
    entries = zip(prediction.launches, launches, strict=True)
    return GpuLedger(prediction, seconds, device, is_same, tuple(LedgerEntry(*entry) for entry in entries))


def _added_up(launches: list[float], seconds: float) -> list[float]:
    """Seconds of launches that add up to those of the step: each gets its part of the time between them.

    The profiler sees other steps than the clock does; launches that take longer than the step are all as much too long.
    """
    busy = sum(launches)
    if busy > seconds:
        return [each * seconds / busy for each in launches]
    return [each + (seconds - busy) / len(launches) for each in launches]


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)
