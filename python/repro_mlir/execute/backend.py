# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What runs a program: an executable of repro_mlir.execute, or the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np


class Backend(Protocol):
    """A loaded program."""

    def run(self, states: Sequence[np.ndarray], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Any:
        """One step: replaces the contents of `states` and `outputs`.

        All arrays are C-contiguous and as base/numerics/tensors.py holds them. StepFailed where a check of
        the program fails; the states are unchanged then.
        """


@runtime_checkable
class ResidentBackend(Backend, Protocol):
    """A backend whose steps run on memory of its own: a state can stay there from step to step."""

    def run(self, states: Sequence[np.ndarray], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """As of Backend: copies the states there and back."""
        self.load(states)
        self.step(inputs, outputs)
        self.store(states)

    def load(self, states: Sequence[np.ndarray]) -> None:
        """Copies a state there."""

    def step(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """One step on the state that is there; a StepFailed leaves it unchanged."""

    def store(self, states: Sequence[np.ndarray]) -> None:
        """Copies the state that is there into the arrays."""


@runtime_checkable
class InPlaceBackend(Backend, Protocol):
    """A backend whose steps run on the memory of the arrays: their addresses are looked at once."""

    @property
    def completed(self) -> int:
        """How many steps have run to their end; no exception separates a step from its count."""

    def bind(self, states: Sequence[np.ndarray]) -> Any:
        """The states for `run_bound`; their memory must stay where it is."""

    def run_bound(self, states: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Any:
        """As `run`, with states of `bind`; no input may share their memory."""

    def run_at(self, addresses: Sequence[int]) -> None:
        """One step on the memory of states, inputs and outputs at these addresses, without a check of them."""
