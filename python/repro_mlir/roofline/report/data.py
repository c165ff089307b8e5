# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Converts the prediction of a step, and its measurement (ledger) if there is one, to JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from repro_mlir.roofline.cpu.ledger import Ledger
from repro_mlir.roofline.cpu.prediction import LaunchPrediction, StepPrediction
from repro_mlir.roofline.gpu.ledger import GpuLedger
from repro_mlir.roofline.gpu.prediction import GpuLaunchPrediction, GpuStepPrediction
from repro_mlir.roofline.sweep_points import SweepPoint

AnyLaunch = LaunchPrediction | GpuLaunchPrediction
AnyStep = StepPrediction | GpuStepPrediction
AnyLedger = Ledger | GpuLedger


@dataclass(frozen=True)
class Case:
    """A prediction together with the context in which a report shows it.

    Attributes:
      prediction: the prediction for the machine with the changed parameters.
      ledger: the measurement of the step, if there is one.
      changes: the changed machine parameters, by name.
      given: the prediction without the changes, with at most as many threads as the unchanged machine has cores; None
        if there are no changes.
    """

    prediction: AnyStep
    ledger: AnyLedger | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    given: AnyStep | None = None

    @property
    def label(self) -> str:
        """The machine name and the changes."""
        return " ".join([self.prediction.machine.name, *(f"{name}={value}" for name, value in self.changes.items())])

    @property
    def given_label(self) -> str:
        """The machine name of `given`, with its number of threads if it differs from that of `prediction`."""
        threads = self.given.facts.get("threads") if self.given else None
        others = f", {threads} threads" if threads != self.prediction.facts.get("threads") else ""
        return f"{self.prediction.machine.name}{others}"


def as_json(prediction: AnyStep, ledger: AnyLedger | None) -> dict[str, Any]:
    """Returns the whole prediction and ledger as a JSON object."""
    launches = []
    predicted: Sequence[AnyLaunch] = prediction.launches
    for number, each in enumerate(predicted):
        entry: dict[str, Any] = {"kernel": each.kernel, **each.facts, "seconds": each.seconds}
        entry |= {"causes": each.causes, "bytes": each.traffic, "operations": each.operations}
        if ledger is not None and ledger.entries:
            entry |= {"measured": ledger.entries[number].seconds, "counts": dict(ledger.entries[number].counts)}
        launches.append(entry)
    ceilings = {"arithmetic": prediction.ceilings.arithmetic, "bandwidth": prediction.ceilings.bandwidth}
    found: dict[str, Any] = {
        "machine": prediction.machine.name,
        **prediction.facts,
        "seconds": prediction.seconds,
        "causes": prediction.causes,
        "ceilings": ceilings,
        "memory": prediction.memory,
        "joules": prediction.joules,
        "launches": launches,
    }
    if ledger is not None:
        found |= {"measured": ledger.seconds, **ledger.facts, "ledger": ledger.causes}
        found["unsigned_unknown"] = ledger.unsigned_unknown
    return found


def case_as_json(case: Case) -> dict[str, Any]:
    """Returns the JSON object of a case: the object that `as_json` returns, the changes, and the prediction without
    changes."""
    found = as_json(case.prediction, case.ledger)
    if case.given is not None:
        found |= {"changes": dict(case.changes), "given": as_json(case.given, None)}
    return found


def sweep_as_json(points: Sequence[SweepPoint], losses: Mapping[str, Sequence[float | None]]) -> dict[str, Any]:
    """Returns the points of a sweep, and the losses of training runs by program, as a JSON object."""
    found: dict[str, Any] = {"points": [asdict(each) for each in points]}
    if losses:
        found["losses"] = {name: list(each) for name, each in losses.items()}
    return found
