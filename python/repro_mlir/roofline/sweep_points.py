# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts a step on many machines: each machine file with all combinations of changed parameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.base.progress import Progress
from repro_mlir.program.program import Program
from repro_mlir.roofline.machines import Accelerator, CpuMachine
from repro_mlir.roofline.prediction import Codes, predict, threads_of
from repro_mlir.runner.bundle import Bundle

POINTS = 4096
"""The maximum number of points of a sweep."""


@dataclass(frozen=True)
class SweepPoint:
    """The prediction of one step on one machine with changed parameters.

    Attributes:
      program: the key of the program in the argument `programs` of `sweep`.
      machine: the name of the machine.
      given: the changed parameters by name, as the caller wrote them.
      numbers: the resulting values of these parameters.
      seconds: the time of the step.
      causes: seconds by cause.
      calls: the routines whose time `seconds` does not include.
    """

    program: str
    machine: str
    given: dict[str, str]
    numbers: dict[str, float]
    seconds: float
    causes: dict[str, float]
    calls: tuple[str, ...] = ()


Values = Mapping[str, Sequence[str]]
"""Numbers or factors by machine attribute, in the syntax of `CpuMachine.with_changes`."""


def count_points(machines: Sequence[tuple[CpuMachine | Accelerator, Values]], programs: int = 1) -> int:
    """Returns the number of points of a sweep.

    Raises:
      ReproError: more than `POINTS` points, or an attribute without values.
    """
    for machine, values in machines:
        for name, texts in values.items():
            if not texts:
                raise ReproError(f"expected at least one value for {name} of {machine.name}")
    count = programs * sum(math.prod(len(texts) for texts in values.values()) for _, values in machines)
    if count > POINTS:
        raise ReproError(f"expected at most {POINTS} points of a sweep, got {count}")
    return count


def sweep(
    programs: Mapping[str, Program | Bundle],
    machines: Sequence[tuple[CpuMachine | Accelerator, Values]],
    threads: int = 1,
) -> list[SweepPoint]:
    """Predicts the step of each program on each machine with each combination of values.

    A program is compiled once for all machines that have both the same level or architecture and the same execution
    units.

    Args:
      machines: each machine with the values of its changed attributes.
      threads: the number of threads on CPUs, from 1 to the number of cores of each CPU.
    Raises:
      ReproError: there are more than `POINTS` points, or `predict` or `read_code` fails.
    """
    count_points(machines, len(programs))
    asked = [
        (name, dict(zip(values, texts, strict=True)), machine.with_changes(dict(zip(values, texts, strict=True))))
        for name in programs
        for machine, values in machines
        for texts in itertools.product(*values.values())
    ]
    counts = threads_of((machine for _, _, machine in asked), threads)
    found: list[SweepPoint] = []
    codes = {name: Codes(program) for name, program in programs.items()}
    with Progress(len(asked), "predicting") as progress:
        for (name, given, machine), count in zip(asked, counts, strict=True):
            step = predict(codes[name].read(machine), machine, count)
            numbers = {each: float(getattr(machine, each)) for each in given}
            calls = step.facts.get("calls", ())
            found.append(SweepPoint(name, machine.name, given, numbers, step.seconds, step.causes, calls))
            progress.advance()
    return found
