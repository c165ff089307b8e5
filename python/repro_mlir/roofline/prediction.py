# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts a step on a CPU or a GPU, depending on the type of the machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import overload

from repro_mlir.base.errors import ReproError
from repro_mlir.program.program import Program
from repro_mlir.roofline.cpu.prediction import Code, StepPrediction, check_threads, predict_cpu, read_cpu_code
from repro_mlir.roofline.gpu.prediction import GpuCode, GpuStepPrediction, predict_gpu, read_gpu_code
from repro_mlir.roofline.machines import Accelerator, CpuMachine
from repro_mlir.roofline.machines.cpu import UNITS
from repro_mlir.runner.bundle import Bundle


@overload
def read_code(source: Program | Bundle, machine: CpuMachine) -> Code: ...
@overload
def read_code(source: Program | Bundle, machine: Accelerator) -> GpuCode: ...
@overload
def read_code(source: Program | Bundle, machine: CpuMachine | Accelerator) -> Code | GpuCode: ...
def read_code(source: Program | Bundle, machine: CpuMachine | Accelerator) -> Code | GpuCode:
    """Compiles a program for a machine and analyzes the code; for GPUs a bundle's code is analyzed as it is.

    Raises:
      ReproError: an error of the compiler or of llvm-mca, a bundle without code for the machine, a machine that runs no
        code of the compiler, or a kernel that cannot be counted.
    """
    if isinstance(machine, Accelerator):
        return read_gpu_code(source, machine)
    if not isinstance(source, Program):
        raise ReproError(f"expected a GPU for {source.path.name}, which has code for GPUs, got the CPU {machine.name}")
    return read_cpu_code(source, machine)


class Codes:
    """Caches the compiled code of a program. Machines with the same level or architecture and the same execution units
    share the code."""

    def __init__(self, source: Program | Bundle) -> None:
        """Keeps the program or bundle; code is read on demand."""
        self._source = source
        self._found: dict[tuple[object, ...], Code | GpuCode] = {}

    def read(self, machine: CpuMachine | Accelerator) -> Code | GpuCode:
        """Returns the code for a machine; see `read_code`."""
        units = UNITS if isinstance(machine, CpuMachine) else ("architecture",)
        key = tuple(getattr(machine, unit) for unit in units)
        if key not in self._found:
            self._found[key] = read_code(self._source, machine)
        return self._found[key]


def threads_of(machines: Iterable[CpuMachine | Accelerator], threads: int) -> list[int]:
    """Returns the number of threads of a step on each machine: `threads` on CPUs, 1 on accelerators.

    Raises:
      ReproError: `threads` exceeds the cores of a CPU, or is more than 1 and no machine is a CPU.
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
    """Predicts the time of a step in steady state, with the caches as the previous step left them.

    Args:
      threads: for a CPU, from 1 to its number of cores.
    Raises:
      ReproError: `threads` is out of range; the type, level, architecture or execution units of the machine differ from
        those that the code was read for; or a block does not fit the GPU.
    """
    if isinstance(code, Code) and isinstance(machine, CpuMachine):
        return predict_cpu(code, machine, threads)
    if isinstance(code, GpuCode) and isinstance(machine, Accelerator):
        if threads != 1:
            raise ReproError(f"expected one thread, as {machine.name} is not a CPU, got {threads}")
        return predict_gpu(code, machine)
    raise ReproError(f"expected code that was read for {machine.name}, got code for another kind of machine")
