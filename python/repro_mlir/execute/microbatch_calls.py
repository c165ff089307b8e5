# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Calls the program of a microbatch (B1) once for each microbatch of a step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro_mlir.base.numerics.tensors import canonical_of, start_of
from repro_mlir.distributed.sums import Sums
from repro_mlir.execute.executable import Executable
from repro_mlir.program.microbatches import MicrobatchProgram


class MicrobatchCalls:
    """Runs the microbatches of a step.

    The arguments are checked once per step, because checks of a hundred arrays take as long as a small microbatch.

    Args:
      program: the training step with microbatches.
      part: the compiled program of a microbatch.
      state: C-contiguous, aligned arrays whose memory does not move.
    """

    def __init__(self, program: MicrobatchProgram, part: Executable, state: Sequence[np.ndarray]) -> None:
        self._program = program
        self._part = part
        self._state = list(state)
        self._starts_of_state = [start_of(array) for array in state]
        self._begun: list[np.ndarray] = []
        self._starts: list[int] = []
        self._distances: dict[int, int] = {}

    def begin(self, inputs: Sequence[np.ndarray]) -> None:
        """Begins a step on the inputs of a whole batch; inputs and state must not change during the step's calls."""
        program, count = self._program, self._program.microbatches.count
        states = len(self._state)
        self._begun = [*self._state, *(np.require(array, requirements=("C", "A")) for array in inputs)]
        self._starts = [*self._starts_of_state, *(start_of(array) for array in self._begun[states:])]
        cut = [*program.own, *(states + i for i in program.cut)]
        if program.random is not None:
            # (B1) Each microbatch draws random numbers at its own step number.
            first = self._state[program.random]
            self._replace(program.random, first + np.arange(count, dtype=np.int64))
            cut.append(program.random)
        for i in self._part.moved:
            self._replace(i, canonical_of(self._begun[i], self._part.program.inputs[i].element))
        self._distances = {i: self._begun[i].nbytes // count for i in cut}

    def write(self, number: int, sums: Sums, own: Sequence[np.ndarray]) -> None:
        """Runs microbatch `number`: writes its results to `sums`, and its own new state tensors (B5) to `own`. Raises
        ReproError and StepFailed as `Executable.write` does."""
        if self._part.takes_addresses:
            self._part.write_at([*self._addresses(number), *sums.addresses, *map(start_of, own)])
        else:
            self._part.write([], self._arrays(number), [*sums.tensors, *own])

    def _replace(self, i: int, array: np.ndarray) -> None:
        self._begun[i], self._starts[i] = array, start_of(array)

    def _addresses(self, number: int) -> list[int]:
        starts = list(self._starts)
        for i, distance in self._distances.items():
            starts[i] += number * distance
        return starts

    def _arrays(self, number: int) -> list[np.ndarray]:
        arrays = list(self._begun)
        for i in self._distances:
            kind = self._part.program.inputs[i]
            extent = len(arrays[i]) // self._program.microbatches.count
            arrays[i] = arrays[i][number * extent : (number + 1) * extent].reshape(kind.shape)
        return arrays
