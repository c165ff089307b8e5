# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A prediction, and a ledger where there is one, as lines of text and as JSON."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .cpu.ledger import Ledger
from .cpu.prediction import CAUSES, LaunchPrediction, StepPrediction

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def lines_of(prediction: StepPrediction, ledger: Ledger | None, most: int) -> list[str]:
    """A table of the kernels that take longest, and the causes of the whole step.

    Args:
      most: kernels at most.
    """
    machine = prediction.machine
    lines = [
        f"machine    {machine.name}, {machine.level}, {prediction.threads} threads",
        f"predicted  {_time(prediction.seconds)} a step, {len(prediction.launches)} launches",
    ]
    if ledger is not None:
        error = (prediction.seconds / ledger.seconds - 1) * 100 if ledger.seconds else 0.0
        lines.append(
            f"measured   {_time(ledger.seconds)} a step, the least of {ledger.steps}; the prediction is off by "
            f"{error:+.1f} %, that of a launch by {ledger.median_error * 100:.1f} % (median by time)"
        )
    lines.append(f"memory     {prediction.state_bytes:,} bytes of state, {prediction.arena_bytes:,} of temporaries")
    causes = prediction.causes if ledger is None else ledger.causes
    whole = prediction.seconds if ledger is None else ledger.seconds
    shown = (f"{cause} {_time(seconds)} ({seconds / whole:.0%})" for cause, seconds in causes.items() if seconds)
    lines += [f"time       {', '.join(shown)}", ""]
    measured = "" if ledger is None else "measured  "
    lines.append(f"{'kernel':12} {'launches':>8} {'predicted':>10} {measured:>10} causes")
    kernels = _kernels(prediction, ledger)
    for name, (launches, seconds) in sorted(kernels.items(), key=lambda item: -_weight(item[1]))[:most]:
        total = sum(each.seconds for each in launches)
        parts = {cause: sum(each.causes[cause] for each in launches) for cause in CAUSES}
        main = sorted((each for each in CAUSES if parts[each] > total / 20), key=lambda cause: -parts[cause])
        text = ", ".join(f"{cause} {parts[cause] / total:.0%}" for cause in main)
        lines.append(f"{name:12} {len(launches):8} {_time(total):>10} {_time(seconds) if ledger else '':>10} {text}")
    if len(kernels) > most:
        lines.append(f"{len(kernels) - most} others")
    return lines


def as_json(prediction: StepPrediction, ledger: Ledger | None) -> dict[str, Any]:
    """All of it."""
    launches = []
    for number, each in enumerate(prediction.launches):
        entry: dict[str, Any] = {"kernel": each.kernel, "threads": each.threads, "seconds": each.seconds}
        entry |= {"causes": each.causes, "bytes": each.traffic}
        if ledger is not None:
            entry["measured"] = ledger.entries[number].seconds
        launches.append(entry)
    found: dict[str, Any] = {
        "machine": prediction.machine.name,
        "level": prediction.machine.level,
        "threads": prediction.threads,
        "seconds": prediction.seconds,
        "causes": prediction.causes,
        "state_bytes": prediction.state_bytes,
        "arena_bytes": prediction.arena_bytes,
        "launches": launches,
    }
    if ledger is not None:
        found |= {"measured": ledger.seconds, "measured_steps": ledger.steps, "ledger": ledger.causes}
    return found


def _kernels(prediction: StepPrediction, ledger: Ledger | None) -> dict[str, tuple[list[LaunchPrediction], float]]:
    """Launches of each kernel, and what they took."""
    launches: defaultdict[str, list[LaunchPrediction]] = defaultdict(list)
    seconds: defaultdict[str, float] = defaultdict(float)
    for number, each in enumerate(prediction.launches):
        launches[each.kernel].append(each)
        seconds[each.kernel] += ledger.entries[number].seconds if ledger else 0.0
    return {name: (found, seconds[name]) for name, found in launches.items()}


def _weight(kernel: tuple[list[LaunchPrediction], float]) -> float:
    launches, seconds = kernel
    return max(seconds, sum(each.seconds for each in launches))


def _time(seconds: float) -> str:
    for unit, name in _UNITS:
        if abs(seconds) >= unit:
            return f"{seconds / unit:.2f} {name}"
    return f"{seconds * 1e9:.2f} ns"
