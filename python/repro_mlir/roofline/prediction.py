# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predictions, by the kind of the machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import overload

from repro_mlir.base.errors import ReproError
from repro_mlir.bundle.runner.bundle import Bundle
from repro_mlir.program.program import Program
from repro_mlir.roofline.cpu.prediction import Code, StepPrediction, check_threads, predict_cpu, read_cpu_code
from repro_mlir.roofline.gpu.prediction import GpuCode, GpuStepPrediction, predict_gpu, read_gpu_code
from repro_mlir.roofline.machines import Accelerator, CpuMachine
from repro_mlir.roofline.machines.cpu import UNITS


@overload
def read_code(source: Program | Bundle, machine: CpuMachine) -> Code: ...
@overload
def read_code(source: Program | Bundle, machine: Accelerator) -> GpuCode: ...
@overload
def read_code(source: Program | Bundle, machine: CpuMachine | Accelerator) -> Code | GpuCode: ...
def read_code(source: Program | Bundle, machine: CpuMachine | Accelerator) -> Code | GpuCode:
    """Compiles a program for a machine and looks at the code; that of a bundle for GPUs is there.

    Raises:
      ReproError: an error of the compiler or of llvm-mca, a bundle without code for the machine, a machine that runs no
        code of the compiler, or a kernel that cannot be counted.
    """
    if isinstance(machine, Accelerator):
        return read_gpu_code(source, machine)
    if not isinstance(source, Program):
        raise ReproError(f"{source.path.name} has code for GPUs, and {machine.name} is a CPU")
    return read_cpu_code(source, machine)


class Codes:
    """The code of a program, read once for all machines of the same level or architecture and execution units."""

    def __init__(self, source: Program | Bundle) -> None:
        self._source = source
        self._found: dict[tuple[object, ...], Code | GpuCode] = {}

    def read(self, machine: CpuMachine | Accelerator) -> Code | GpuCode:
        """As `read_code`."""
        units = UNITS if isinstance(machine, CpuMachine) else ("architecture",)
        key = tuple(getattr(machine, unit) for unit in units)
        if key not in self._found:
            self._found[key] = read_code(self._source, machine)
        return self._found[key]


def threads_of(machines: Iterable[CpuMachine | Accelerator], threads: int) -> list[int]:
    """The threads of a step on each machine: `threads` on CPUs, 1 on others.

    Raises:
      ReproError: more threads than a CPU has cores, or more than one and no CPU.
    """
    machines = list(machines)
    for machine in machines:
        if isinstance(machine, CpuMachine):
            check_threads(machine, threads)
    if threads != 1 and not any(isinstance(machine, CpuMachine) for machine in machines):
        names = ", ".join(machine.name for machine in machines)
        raise ReproError(f"expected a CPU with threads, got {names}")
    return [threads if isinstance(machine, CpuMachine) else 1 for machine in machines]


@overload
def predict(code: Code, machine: CpuMachine, threads: int = 1) -> StepPrediction: ...
@overload
def predict(code: GpuCode, machine: Accelerator, threads: int = 1) -> GpuStepPrediction: ...
@overload
def predict(
    code: Code | GpuCode, machine: CpuMachine | Accelerator, threads: int = 1
) -> StepPrediction | GpuStepPrediction: ...
def predict(
    code: Code | GpuCode, machine: CpuMachine | Accelerator, threads: int = 1
) -> StepPrediction | GpuStepPrediction:
    """The time of a step like all others: caches hold what the step before has left there.

    Args:
      threads: of a CPU, from 1 to its cores.
    Raises:
      ReproError: another number of threads; a machine of another kind, level, architecture or other execution units
        than the code is for; a GPU that has no room for a block.
    """
    if isinstance(code, Code) and isinstance(machine, CpuMachine):
        return predict_cpu(code, machine, threads)
    if isinstance(code, GpuCode) and isinstance(machine, Accelerator):
        if threads != 1:
            raise ReproError(f"expected threads with a CPU, and {machine.name} is none")
        return predict_gpu(code, machine)
    raise ReproError(f"the code was read for another kind of machine than {machine.name}")
