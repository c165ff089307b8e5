# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicted times by cause, and the prediction of a step as the sum of its launches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from repro_mlir.roofline.causes import added_causes
from repro_mlir.roofline.ceilings import Ceilings
from repro_mlir.roofline.machines import Accelerator, CpuMachine

MachineT = TypeVar("MachineT", Accelerator, CpuMachine)
LaunchT = TypeVar("LaunchT", bound="PredictedTime")


class PredictedTime:
    """A predicted time: the sum of the seconds in `causes`."""

    causes: dict[str, float]

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return sum(self.causes.values())


@dataclass(frozen=True)
class PredictedStep(Generic[MachineT, LaunchT]):
    """The prediction of a step on a CPU or a GPU.

    Attributes:
      machine: the requested machine.
      launches: the predictions of the launches, in execution order.
      memory: the bytes that the step allocates, by buffer space (`memory.memory_of`).
      ceilings: the ceilings of the machine for the number of threads that are used.
    """

    machine: MachineT
    launches: tuple[LaunchT, ...]
    memory: dict[str, int]
    ceilings: Ceilings

    @cached_property
    def seconds(self) -> float:
        """The sum of the times of the launches."""
        return sum(each.seconds for each in self.launches)

    @cached_property
    def causes(self) -> dict[str, float]:
        """The seconds of all launches by cause."""
        return added_causes(each.causes for each in self.launches)

    @property
    def joules(self) -> float | None:
        """The energy of a step, with the whole machine at load power; None if the machine's power is unknown."""
        return self.machine.watts * self.seconds if self.machine.watts else None
