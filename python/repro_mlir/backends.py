# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What runs a program: an executable of repro_mlir.runtime, or the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from .program import Program


class Backend(Protocol):
    """A loaded program."""

    def run(self, states: Sequence[np.ndarray], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Any:
        """One step: replaces the contents of `states` and `outputs`.

        All arrays are C-contiguous and as arrays.py holds them. StepFailed where a check of
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


class ReferenceBackend:
    """The reference interpreter: slow, and right by construction."""

    def __init__(self, program: Program) -> None:
        from .reference.environment import float_environment
        from .reference.formats import element_type, to_bits
        from .reference.interpreter import Interpreter

        self._interpreter = Interpreter(program.data)
        self._elements = [element_type(kind.element) for kind in (*program.state, *program.outputs)]
        self._to_bits = float_environment()(to_bits)

    def run(self, states: Sequence[np.ndarray], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        results = self._interpreter.run(*states, *inputs)
        for target, value, element in zip((*states, *outputs), results, self._elements, strict=True):
            if element.is_storage:
                value = self._to_bits(value, element).view(target.dtype)
            target[...] = value
