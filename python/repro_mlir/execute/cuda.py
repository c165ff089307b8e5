# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The target "cuda": compiles a program for the GPU of this machine and runs it there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro_mlir.compilation.device_code import architectures_of, compile_for
from repro_mlir.execute.backend import ResidentBackend
from repro_mlir.execute.signature import check_signature
from repro_mlir.program import Program
from repro_mlir.runner.device import Device
from repro_mlir.runner.execution import Execution, choose_runnable


class CudaBackend(ResidentBackend):
    """A backend on the GPU: `run` copies the states to the GPU and back, and `step` leaves them there."""

    def __init__(self, program: Program, target: str) -> None:
        """
        Args:
          target: "cuda", "cuda:sm_90", or either with "+tensor-cores".
        Raises:
          ReproError: there is no driver or GPU, the GPU has another architecture or no certificate for its tensor
            cores, or the program cannot be compiled.
        """
        self._device = Device()
        chosen = choose_runnable(architectures_of(target), self._device, f"target {target}")
        (code,) = compile_for(program, [chosen])
        check_signature(chosen, code.plan.tensors, program)
        self._execution = Execution(self._device, code)

    def load(self, states: Sequence[np.ndarray]) -> None:
        for i, array in enumerate(states):
            self._execution.write("state", i, array)

    def step(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        execution = self._execution
        for i, array in enumerate(inputs):
            execution.write("input", i, array)
        execution.start()
        execution.finish()
        for i, array in enumerate(outputs):
            array[...] = execution.read("output", i)

    def store(self, states: Sequence[np.ndarray]) -> None:
        for i, array in enumerate(states):
            array[...] = self._execution.read("state", i)
