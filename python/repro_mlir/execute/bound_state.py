# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A state that stays bound to a backend from step to step.

A step changes the state and the number of steps together: whichever exception interrupts a caller, including a Ctrl-C
at any moment, `completed` is the number of steps that have updated the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.signals import deferred_signals
from repro_mlir.execute.backend import Backend, InPlaceBackend, ResidentBackend


class BoundState(Protocol):
    """A state on which steps run, in the caller's arrays or in the backend's memory."""

    @property
    def completed(self) -> int:
        """The number of completed steps."""

    @property
    def ahead(self) -> bool:
        """Whether the state is newer than the arrays, so that `fetch` would update them."""

    def step(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Runs one step; all arrays are C-contiguous, and none is part of the state.

        Raises:
          StepFailed: a check of the program failed; the state is unchanged.
        """

    def finish(self) -> None:
        """Finishes the copies of a completed step if an exception interrupted them."""

    def fetch(self) -> None:
        """Copies the state to the arrays if the arrays are out of date."""

    def load(self) -> None:
        """Loads the state from the arrays, after a caller has written to them."""


def bind(backend: Backend, states: Sequence[np.ndarray]) -> BoundState:
    """Binds a state to a backend. The arrays must be C-contiguous and writable, and must not share memory."""
    if isinstance(backend, ResidentBackend):
        return _Elsewhere(backend, states)
    if isinstance(backend, InPlaceBackend):
        return _InPlace(backend, states)
    return _Beside(backend, states)


class _InArrays:
    """A state that is in the caller's arrays themselves."""

    @property
    def ahead(self) -> bool:
        return False

    def finish(self) -> None:
        pass

    def fetch(self) -> None:
        pass

    def load(self) -> None:
        pass


class _InPlace(_InArrays):
    """A state whose backend runs a step and increments the count in one native call, which no exception can
    interrupt."""

    def __init__(self, backend: InPlaceBackend, states: Sequence[np.ndarray]) -> None:
        self._backend = backend
        self._states = backend.bind(states)

    @property
    def completed(self) -> int:
        return self._backend.completed

    def step(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        self._backend.run_bound(self._states, inputs, outputs)


class _Beside(_InArrays):
    """A state whose steps run on a copy of the arrays. Each step then writes the copy to the arrays; if an exception
    interrupts this write, `finish` repeats it."""

    def __init__(self, backend: Backend, states: Sequence[np.ndarray]) -> None:
        self._backend = backend
        self._states = states
        self._result: tuple[int, Sequence[np.ndarray]] = (0, ())

    @property
    def completed(self) -> int:
        return self._result[0]

    def step(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        copies = [array.copy() for array in self._states]
        self._backend.run(copies, inputs, outputs)
        self._result = (self._result[0] + 1, copies)
        self.finish()

    def finish(self) -> None:
        count, results = self._result
        # The results are empty if they have been written already.
        for array, value in zip(self._states, results, strict=False):
            array[...] = value
        self._result = (count, ())


class _Elsewhere:
    """A state in the memory of the backend, which is not copied between steps."""

    def __init__(self, backend: ResidentBackend, states: Sequence[np.ndarray]) -> None:
        self._backend = backend
        self._states = states
        # None while a step runs, and after an interrupted step.
        self._completed: int | None = 0
        self.ahead = False
        backend.load(states)

    @property
    def completed(self) -> int:
        if self._completed is None:
            raise ReproError(
                "a step was interrupted, and the state is lost: load a checkpoint (load_state_dict), "
                "or resume the receipt, in a new trainer"
            )
        return self._completed

    def step(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        completed = self.completed
        with deferred_signals():
            self._completed = None
            try:
                self._backend.step(inputs, outputs)
            except StepFailed:
                self._completed = completed
                raise
            self.ahead = True
            self._completed = completed + 1

    def finish(self) -> None:
        pass

    def fetch(self) -> None:
        if self.ahead and self.completed >= 0:
            self._backend.store(self._states)
            self.ahead = False

    def load(self) -> None:
        self._backend.load(self._states)
        self.ahead = False
