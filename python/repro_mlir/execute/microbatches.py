# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Training steps in microbatches, made ready to run on a target (B1) to (B3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import StepFailed
from ..frontends.arrays import as_array
from ..program.microbatches import MicrobatchProgram
from .executable import Executable, Kept, compile
from .reduction_tree import fold

_Sums = list[np.ndarray]


class MicrobatchExecutable:
    """A training step in microbatches that is ready to run; the peer of `Executable`.

    Attributes:
      program: the step.
      target, threads: as of an `Executable`.
    """

    def __init__(self, program: MicrobatchProgram, target: str, threads: int | None) -> None:
        self.program = program
        self.target = target
        self._part, self._add, self._finish = (
            compile(each, target, threads) for each in (program.part, program.add, program.finish)
        )
        self.threads = self._finish.threads

    @property
    def resident(self) -> bool:
        """Whether a state that is kept stays on a device, apart from the arrays that were given."""
        return self._finish.resident

    def keep(self, state: Mapping[str, Any]) -> KeptMicrobatches:
        """A state on which many steps run, as `Executable.keep`."""
        return KeptMicrobatches(self, self._finish.keep(state), [state[kind.name] for kind in self.program.state])


class KeptMicrobatches:
    """A state on which steps in microbatches run one after the other; the peer of `Kept`."""

    def __init__(self, executable: MicrobatchExecutable, kept: Kept, state: Sequence[Any]) -> None:
        self._executable = executable
        self._kept = kept
        program = executable.program
        self._state = [as_array(value, kind, "state") for value, kind in zip(state, program.state, strict=True)]
        self._floats = [i for i, kind in enumerate(program.sums) if kind.element.startswith(("f", "bf"))]
        # Those that nobody reads any more.
        self._free: list[_Sums] = []

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the last step by name."""
        return self._kept.outputs

    @property
    def completed(self) -> int:
        """As of `Kept`."""
        return self._kept.completed

    @property
    def ahead(self) -> bool:
        """As of `Kept`."""
        return self._kept.ahead

    def step(self, *inputs: Any) -> dict[str, np.ndarray]:
        """One step, on whole inputs, as `Kept.step`.

        Raises:
          ReproError, StepFailed: as `Kept.step`, of any microbatch; integers that differ between microbatches.
        """
        program = self._executable.program
        arrays = [as_array(value, kind, "input") for value, kind in zip(inputs, program.inputs, strict=True)]
        if self._kept.ahead:
            # Microbatches read the arrays.
            self._kept.fetch()

        def leaf(number: int) -> _Sums:
            accumulate = program.microbatches.accumulate
            first, *others = range(number * accumulate, (number + 1) * accumulate)
            sums = self._run_part(first, arrays)
            for each in others:
                sums = self._added(sums, self._run_part(each, arrays))
            return sums

        sums = fold(range(program.microbatches.leaves), leaf, self._added)
        shared = [array for i, array in enumerate(arrays) if i not in program.cut]
        outputs = self._kept.step(*sums, *shared)
        self._free.append(sums)
        return outputs

    def _run_part(self, number: int, arrays: Sequence[np.ndarray]) -> _Sums:
        """What microbatch `number` gives."""
        program = self._executable.program
        state = list(self._state)
        if program.random is not None:
            # (B1): a step of its own.
            state[program.random] = np.asarray(state[program.random] + np.int64(number))
        given = list(arrays)
        for i in program.cut:
            extent = arrays[i].shape[0] // program.microbatches.count
            given[i] = arrays[i][number * extent : (number + 1) * extent]
        sums = self._free.pop() if self._free else [np.empty(kind.shape, kind.dtype) for kind in program.sums]
        self._executable._part.write([], [*state, *given], sums)
        return sums

    def _added(self, left: _Sums, right: _Sums) -> _Sums:
        """(B2) Two nodes in the place of the first one."""
        program = self._executable.program
        for i, (one, other) in enumerate(zip(left, right, strict=True)):
            if i not in self._floats and one.tobytes() != other.tobytes():
                raise StepFailed(f"(B3) {program.sums[i].name} differs between microbatches, expected equal integers")
        self._executable._add.write([left[i] for i in self._floats], [right[i] for i in self._floats], [])
        self._free.append(right)
        return left

    def finish(self) -> None:
        """As of `Kept`."""
        self._kept.finish()

    def fetch(self) -> None:
        """As of `Kept`."""
        self._kept.fetch()

    def load(self) -> None:
        """As of `Kept`."""
        self._kept.load()
