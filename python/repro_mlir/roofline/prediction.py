# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predictions, by the kind of the machine."""

from __future__ import annotations

from typing import overload

from ..bundle.runner.bundle import Bundle
from ..errors import ReproError
from ..program.program import Program
from .cpu.prediction import Code, StepPrediction, predict_cpu, read_cpu_code
from .gpu.prediction import GpuCode, GpuStepPrediction, predict_gpu, read_gpu_code
from .machines import Accelerator, CpuMachine


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
