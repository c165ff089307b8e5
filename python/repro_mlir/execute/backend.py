# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Protocols of the backends that run a program: compiled code on some target, or the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np


class Backend(Protocol):
    """A loaded program."""

    def run(self, states: Sequence[np.ndarray], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Any:
        """Runs one step: replaces the contents of `states` and `outputs`.

        All arrays are C-contiguous and have the dtypes of base/numerics/tensors.py. Raises StepFailed, and leaves the
        states unchanged, if a check of the program fails.
        """


@runtime_checkable
class ResidentBackend(Backend, Protocol):
    """A backend with its own memory, such as that of a GPU, in which a state can stay from step to step."""

    def run(self, states: Sequence[np.ndarray], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """See `Backend.run`; copies the states to the backend and back."""
        self.load(states)
        self.step(inputs, outputs)
        self.store(states)

    def load(self, states: Sequence[np.ndarray]) -> None:
        """Copies a state to the backend."""

    def step(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Runs one step on the backend's state. Raises StepFailed, and leaves the state unchanged, if a check of the
        program fails."""

    def store(self, states: Sequence[np.ndarray]) -> None:
        """Copies the backend's state into the arrays."""


@runtime_checkable
class InPlaceBackend(Backend, Protocol):
    """A backend that works directly on the caller's arrays. `bind` reads the addresses of the states once for many
    steps."""

    @property
    def completed(self) -> int:
        """The number of completed steps. No exception can come between the end of a step and the update of this
        number."""

    def bind(self, states: Sequence[np.ndarray]) -> Any:
        """Returns the states in the form that `run_bound` takes, such as their addresses. The memory of the states must
        not move."""

    def run_bound(self, states: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Any:
        """Like `run`, with states from `bind`; no input may share memory with a state."""

    def run_at(self, addresses: Sequence[int]) -> None:
        """Runs one step on states, inputs and outputs, in this order, at the given addresses, which are not checked."""
