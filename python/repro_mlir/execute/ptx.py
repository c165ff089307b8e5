# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The target "ptx-emulator": runs a program's device code on the PTX emulator in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from repro_mlir.base.errors import StepFailed
from repro_mlir.compilation.device_code import compile_for
from repro_mlir.execute import emulator
from repro_mlir.execute.backend import ResidentBackend
from repro_mlir.execute.signature import check_signature
from repro_mlir.program import Program
from repro_mlir.runner.execution import TargetCode

DEFAULT_ARCHITECTURE = "sm_90"
"""The default architecture of "ptx-emulator"; the bits are equal for all architectures."""


class Emulation:
    """Device code loaded into the emulator, with its buffers.

    Attributes:
      buffers: the bytes of each buffer, by memory space and number of the buffer in the launch plan.
    """

    def __init__(self, code: TargetCode) -> None:
        """
        Args:
          code: code for any architecture; its cubin is not used.
        Raises:
          PtxError: the emulator does not support the PTX.
        """
        self._plan = plan = code.plan
        self._module = emulator.load(code.ptx.decode())
        self._memory = emulator.Memory()
        sizes = {("error", 0): np.dtype(np.int64).itemsize} | plan.sizes()
        self.buffers = {(space, i): self._memory.allocate(size, f"{space} {i}") for (space, i), size in sizes.items()}
        self.buffers["constant", 0][:] = np.frombuffer(code.constants, np.uint8)
        self._word = self.buffers["error", 0].view(np.int64)
        addresses = {key: int(array.ctypes.data) for key, array in self.buffers.items()}
        self._parameters = [
            np.array(
                [addresses[space, i] + offset for space, i, offset in launch.arguments] + [addresses["error", 0]],
                np.uint64,
            ).tobytes()
            for launch in plan.launches
        ]

    def array(self, space: str, index: int) -> np.ndarray:
        """Returns a view of a state, input or output in the memory of the emulator."""
        kind = self._plan.tensors(space)[index]
        size = kind.nbytes
        return self.buffers[space, index][:size].view(kind.dtype).reshape(kind.shape)

    def run(self, **options: Any) -> None:
        """Runs one step.

        Args:
          options: options of `emulator.Module.launch`.
        Raises:
          StepFailed: a check of the program failed (E1); the states are unchanged.
          KernelFault: a kernel did an illegal operation.
        """
        self._word[0] = 0
        for launch, parameters in zip(self._plan.launches, self._parameters, strict=True):
            kernel = self._plan.kernels[launch.kernel]
            self._module.launch(
                kernel.name, launch.grid, kernel.block, kernel.shared, parameters, self._memory, **options
            )
        if self._word[0]:
            raise StepFailed(self._plan.message(int(self._word[0])))


class PtxBackend(ResidentBackend):
    """A backend on the emulator: the states stay in the emulator's buffers from step to step."""

    def __init__(self, program: Program, architecture: str, threads: int) -> None:
        """
        Args:
          architecture: the architecture of the PTX, such as "sm_90".
          threads: the number of host threads that share the blocks of a launch.
        Raises:
          ReproError: the program cannot be compiled.
        """
        (code,) = compile_for(program, [architecture], assembled=False)
        check_signature(architecture, code.plan.tensors, program)
        self._emulation = Emulation(code)
        self._threads = threads

    def load(self, states: Sequence[np.ndarray]) -> None:
        for i, array in enumerate(states):
            self._emulation.array("state", i)[...] = array

    def step(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        for i, array in enumerate(inputs):
            self._emulation.array("input", i)[...] = array
        self._emulation.run(threads=self._threads)
        for i, array in enumerate(outputs):
            array[...] = self._emulation.array("output", i)

    def store(self, states: Sequence[np.ndarray]) -> None:
        for i, array in enumerate(states):
            array[...] = self._emulation.array("state", i)
