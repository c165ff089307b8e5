# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A prediction, and a ledger where there is one, as lines of text and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from .cpu.ledger import Ledger
from .cpu.prediction import LaunchPrediction, StepPrediction
from .gpu.ledger import GpuLedger
from .gpu.prediction import GpuLaunchPrediction, GpuStepPrediction

_AnyLaunch = LaunchPrediction | GpuLaunchPrediction
_AnyStep = StepPrediction | GpuStepPrediction
_AnyLedger = Ledger | GpuLedger

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def lines_of(prediction: _AnyStep, ledger: _AnyLedger | None, most: int) -> list[str]:
    """A table of the kernels that take longest, and the causes of the whole step.

    Args:
      most: kernels at most.
    """
    lines = [
        f"machine    {prediction.machine.name}, {prediction.setting}",
        f"predicted  {_time(prediction.seconds)} a step, {len(prediction.launches)} launches",
    ]
    if ledger is not None:
        error = (prediction.seconds / ledger.seconds - 1) * 100 if ledger.seconds else 0.0
        launch = f", that of a launch by {ledger.median_error * 100:.1f} % (median by time)" if ledger.entries else ""
        lines.append(
            f"measured   {_time(ledger.seconds)} a step, {ledger.how}; the prediction is off by {error:+.1f} %{launch}"
        )
    lines.append(f"memory     {prediction.state_bytes:,} bytes of state, {prediction.arena_bytes:,} of temporaries")
    causes = prediction.causes if ledger is None else ledger.causes
    whole = prediction.seconds if ledger is None else ledger.seconds
    shown = (f"{cause} {_time(seconds)} ({seconds / whole:.0%})" for cause, seconds in causes.items() if seconds)
    lines += [f"time       {', '.join(shown)}", ""]
    entries = ledger.entries if ledger else ()
    measured = "measured  " if entries else ""
    lines.append(f"{'kernel':12} {'launches':>8} {'predicted':>10} {measured:>10} causes")
    kernels = _kernels(prediction, ledger)
    for name, (launches, seconds) in sorted(kernels.items(), key=lambda item: -_weight(item[1]))[:most]:
        total = sum(each.seconds for each in launches)
        parts = {cause: sum(each.causes[cause] for each in launches) for cause in prediction.causes}
        main = sorted((each for each in parts if parts[each] > total / 20), key=lambda cause: -parts[cause])
        text = ", ".join(f"{cause} {parts[cause] / total:.0%}" for cause in main)
        lines.append(f"{name:12} {len(launches):8} {_time(total):>10} {_time(seconds) if entries else '':>10} {text}")
    if len(kernels) > most:
        lines.append(f"{len(kernels) - most} others")
    return lines


def as_json(prediction: _AnyStep, ledger: _AnyLedger | None) -> dict[str, Any]:
    """All of it."""
    launches = []
    predicted: Sequence[_AnyLaunch] = prediction.launches
    for number, each in enumerate(predicted):
        entry: dict[str, Any] = {"kernel": each.kernel, **each.facts, "seconds": each.seconds}
        entry |= {"causes": each.causes, "bytes": each.traffic}
        if ledger is not None and ledger.entries:
            entry["measured"] = ledger.entries[number].seconds
        launches.append(entry)
    found: dict[str, Any] = {
        "machine": prediction.machine.name,
        **prediction.facts,
        "seconds": prediction.seconds,
        "causes": prediction.causes,
        "state_bytes": prediction.state_bytes,
        "arena_bytes": prediction.arena_bytes,
        "launches": launches,
    }
    if ledger is not None:
        found |= {"measured": ledger.seconds, **ledger.facts, "ledger": ledger.causes}
    return found


def _kernels(prediction: _AnyStep, ledger: _AnyLedger | None) -> dict[str, tuple[list[_AnyLaunch], float]]:
    """Launches of each kernel, and what they took."""
    launches: defaultdict[str, list[_AnyLaunch]] = defaultdict(list)
    seconds: defaultdict[str, float] = defaultdict(float)
    predicted: Sequence[_AnyLaunch] = prediction.launches
    for number, each in enumerate(predicted):
        launches[each.kernel].append(each)
        seconds[each.kernel] += ledger.entries[number].seconds if ledger and ledger.entries else 0.0
    return {name: (found, seconds[name]) for name, found in launches.items()}


def _weight(kernel: tuple[list[_AnyLaunch], float]) -> float:
    launches, seconds = kernel
    return max(seconds, sum(each.seconds for each in launches))


def _time(seconds: float) -> str:
    for unit, name in _UNITS:
        if abs(seconds) >= unit:
            return f"{seconds / unit:.2f} {name}"
    return f"{seconds * 1e9:.2f} ns"
