# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the measured and predicted times of a step, launch by launch."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.compilation import cpu
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.arguments import Arguments, readable
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.program.program import Program
from repro_mlir.roofline.causes import added_causes
from repro_mlir.roofline.cpu.counters import EVENTS, Counters, threads_of_process
from repro_mlir.roofline.cpu.prediction import StepPrediction
from repro_mlir.roofline.ledger import LedgerEntry, median_error, unsigned_unknown
from repro_mlir.roofline.machines.cpu import CpuMachine

# The minimum number of runs; with fewer, other programs often disturb even the fastest launch.
_LEAST_STEPS = 5


@dataclass(frozen=True)
class Ledger:
    """The measurement of a step.

    Attributes:
      entries: the launches of the step in order, each with the minimum of its times in the measured steps.
      steps: the number of measured steps.
      not_counted: the reason why an event was not counted, by the name of the event (`.counters.EVENTS`).
    """

    entries: tuple[LedgerEntry, ...]
    steps: int
    not_counted: Mapping[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The sum of the times of the launches."""
        return sum(each.seconds for each in self.entries)

    @property
    def facts(self) -> dict[str, Any]:
        """The conditions of the measurement, by name."""
        return {"measured_steps": self.steps, "not_counted": dict(self.not_counted)}

    @property
    def how(self) -> str:
        """The conditions of the measurement in words."""
        return f"the least of {self.steps}"

    @property
    def counted(self) -> str:
        """The counts of all launches in words, and the events that were not counted."""
        names = [name for name in EVENTS if self.entries and all(name in each.counts for each in self.entries)]
        parts = [f"{_words(name)} {sum(each.counts[name] for each in self.entries):,}" for name in names]
        by_reason = defaultdict(list)
        for name, reason in self.not_counted.items():
            by_reason[reason].append(_words(name))
        parts += [f"no {', '.join(events)}: {reason}" for reason, events in by_reason.items()]
        return "; ".join(parts)

    @property
    def causes(self) -> dict[str, float]:
        """Seconds by cause, including `unknown`; their sum is `seconds`."""
        known = added_causes(each.predicted.causes for each in self.entries)
        return {**known, "unknown": sum(each.unknown for each in self.entries)}

    @property
    def unsigned_unknown(self) -> float:
        """See `..ledger.unsigned_unknown`."""
        return unsigned_unknown(self.entries)

    @property
    def median_error(self) -> float:
        """See `..ledger.median_error`."""
        return median_error(self.entries)


def measure(
    program: Program, prediction: StepPrediction, inputs: Sequence[np.ndarray] | None = None, seconds: float = 2.0
) -> Ledger:
    """Measures a predicted step on this machine.

    Events (`.counters`) are counted in five additional steps; each launch has the counts of its fastest run.

    Args:
      inputs: the inputs of the step; zeros by default.
      seconds: the duration of the measurement in seconds; at least five steps run.
    Raises:
      ReproError: this machine does not run the code of the prediction's machine, the prediction is of another program,
        the program has no initial state, or the inputs do not match those of the program.
      StepFailed: a check of the step fails.
    """
    machine: CpuMachine = prediction.machine
    if machine.level not in cpu.runnable_levels():
        raise ReproError(f"this machine does not run code for {machine.level}, of {machine.name}")
    before = threads_of_process()
    executable = CpuBackend(
        cached_compile(program.data, machine.level, untrusted=program.untrusted), prediction.threads
    )
    kernels = [each.kernel for each in prediction.launches]
    if executable.launches != kernels:
        raise ReproError("expected a prediction for this program, got one for another")
    states = [*program.initial_state().values()]
    # np.full writes the pages; reads of untouched pages from np.zeros would hit the shared zero page.
    zeros = [np.full(kind.shape, 0, kind.dtype) for kind in program.inputs]
    given = [readable(array) for array in Arguments(program).inputs(zeros if inputs is None else inputs)]
    outputs = [kind.empty() for kind in program.outputs]

    def run(counters: Counters | None = None) -> list[tuple[float, dict[str, int]]]:
        """Runs a step and returns the seconds and the counts of each launch."""
        try:
            found = executable.profile(states, given, outputs, counters.descriptors if counters else [])
        except RuntimeError as error:
            raise StepFailed(str(error)) from None
        return [(taken, counters.added(counts) if counters else {}) for _, taken, counts in found]

    steps, end = 0, time.perf_counter() + seconds
    taken = [math.inf] * len(kernels)
    while steps < _LEAST_STEPS or time.perf_counter() < end:
        taken = [min(each) for each in zip(taken, (seconds for seconds, _ in run()), strict=True)]
        steps += 1
    # Events are counted in separate steps: reading counters between launches lets waiting threads go to sleep, which
    # would distort the measured times.
    with Counters({threading.get_native_id(), *(threads_of_process() - before)}) as counters:
        counted = [run(counters) for _ in range(_LEAST_STEPS)] if counters.names else []
    fastest = [min(each, key=lambda one: one[0])[1] for each in zip(*counted, strict=True)] or [{}] * len(kernels)
    entries = [LedgerEntry(*each) for each in zip(prediction.launches, taken, fastest, strict=True)]
    return Ledger(tuple(entries), steps, counters.refused)


def _words(event: str) -> str:
    return event.replace("_", " ").replace("l1", "L1")
