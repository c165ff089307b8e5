# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The mapping of a step onto a machine of many cores, and its simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.progress import working
from repro_mlir.compilation.cores import Machine, cached_description, read_machine
from repro_mlir.execute.arguments import Arguments, readable
from repro_mlir.execute.cores import compile_for
from repro_mlir.program import Program
from repro_mlir.roofline.cores.least_memory import overflow_message

BOUNDS = ("compute", "dram", "bisection")


@dataclass(frozen=True)
class Phase:
    """The launches of one operation that come from the same modules or source lines.

    Attributes:
      operation: what the launches compute, such as `contraction` or `mulf, addf`.
      source: the modules, parameters or source lines; empty if the program names none.
      launches: their number.
      cores: the number of cores of the launch with the most cores.
      memory: the bytes of a core's data memory that the launch with the most bytes uses.
      cycles: of all cores.
      dram_bytes: the bytes that are read from and written to the DRAM.
      seconds: the predicted time.
      bounds: the least time by "compute", "dram" and "bisection".
    """

    operation: str
    source: str
    launches: int
    cores: int
    memory: int
    cycles: float
    dram_bytes: float
    seconds: float
    bounds: dict[str, float]

    @property
    def bound(self) -> str:
        """The bound that is reached last."""
        return max(self.bounds, key=lambda name: self.bounds[name])


@dataclass(frozen=True)
class Mapping:
    """A step that is mapped onto a machine.

    Attributes:
      machine: the machine.
      data: the description of the mapping (docs/guides/many-cores.md).
      simulated: the report of the simulated step; None if the step was not simulated.
    """

    machine: Machine
    data: dict[str, Any]
    simulated: dict[str, Any] | None = None

    @cached_property
    def phases(self) -> list[Phase]:
        """The phases of the step in the order of their first launches."""
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for launch in self.data["launches"]:
            found.setdefault((launch["operation"], launch["source"]), []).append(launch)
        return [
            Phase(
                operation,
                source,
                len(launches),
                max(each["cores"] for each in launches),
                max(each["memory"] for each in launches),
                sum(each["cycles"] for each in launches),
                sum(each["dram_bytes"] for each in launches),
                sum(each["seconds"] for each in launches),
                {name: sum(each["bounds"][name] for each in launches) for name in BOUNDS},
            )
            for (operation, source), launches in found.items()
        ]

    def described(self) -> dict[str, Any]:
        """Returns the description with the phases and the report, as `repro map --json` prints it."""
        phases = [{**vars(each), "bound": each.bound} for each in self.phases]
        return {**self.data, "phases": phases, "simulated": self.simulated}

    @property
    def dram(self) -> dict[str, int]:
        """The bytes of the tensors by their kind."""
        kinds = dict.fromkeys(("state", "input", "output", "temporary", "constant"), 0)
        for tensor in self.data["tensors"]:
            kinds[tensor["kind"]] += tensor["bytes"]
        return kinds


def map_step(program: Program, machine: str) -> Mapping:
    """Maps the step of a program onto a machine, whose name or file is given, without making the programs of the cores.

    Raises:
      ReproError: there is no such machine, or the step does not fit. If a tile does not fit into the data memory of a
        core, the message contains the least data memory with which the step fits.
    """
    read = read_machine(machine)
    with working(f"mapping onto {read.name}"):
        data = cached_description(program.data, read, untrusted=program.untrusted)
    if "overflow" in data:
        with working(f"searching for a machine like {read.name} that is large enough"):
            raise ReproError(overflow_message(program, read, data["overflow"]))
    return Mapping(read, data)


def simulate(mapping: Mapping, program: Program, inputs: Sequence[np.ndarray], timeline: bool = False) -> Mapping:
    """Returns the mapping with the report of a simulated step, which begins with the initial state.

    Args:
      program: the program that has been mapped.
      timeline: whether the report contains the timeline of each core.
    Raises:
      ReproError: the program has no initial state, or the plan does not fit the machine.
      StepFailed: a check of the step fails.
    """
    states = [*program.initial_state().values()]
    backend = compile_for(program, mapping.machine)
    backend.timeline = timeline
    outputs = [kind.empty() for kind in program.outputs]
    with working("simulating a step"):
        backend.run(states, [readable(array) for array in Arguments(program).inputs(inputs)], outputs)
    return replace(mapping, simulated=backend.report)
