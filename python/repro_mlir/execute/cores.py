# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The targets "cores:<machine>": simulates a machine of many cores in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import ReproError, StepFailed
from repro_mlir.base.numerics.tensors import TensorType, start_of
from repro_mlir.execute.backend import ResidentBackend


class CoresBackend(ResidentBackend):
    """A core plan in a simulator. The states stay in arrays of the backend, the DRAM of the machine."""

    def __init__(self, plan: bytes) -> None:
        """
        Args:
          plan: the result of `compilation.cores.compile`.
        Raises:
          ValueError: the plan is damaged, or does not fit its machine.
        """
        self._loaded = _repro.LoadedCorePlan(plan)
        self.states, self.inputs, self.outputs = (
            [TensorType(name, element, tuple(shape)) for name, element, shape in tensors]
            for tensors in (self._loaded.states, self._loaded.inputs, self._loaded.outputs)
        )
        self._held = [kind.empty() for kind in self.states]
        self.timeline = False
        """Whether the reports of further steps contain a timeline."""
        self._report = ""

    @property
    def report(self) -> dict[str, Any]:
        """The measurements of the last step (docs/guides/many-cores.md)."""
        report: dict[str, Any] = json.loads(self._report)
        return report

    def load(self, states: Sequence[np.ndarray]) -> None:
        for held, array in zip(self._held, states, strict=True):
            held[...] = array

    def step(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        addresses = [start_of(array) for array in (*self._held, *inputs, *outputs)]
        try:
            self._report = self._loaded.run(addresses, self.timeline)
        except RuntimeError as error:
            raise StepFailed(str(error)) from None
        except ValueError as error:
            raise ReproError(f"the core plan is wrong: {error}") from None

    def store(self, states: Sequence[np.ndarray]) -> None:
        for held, array in zip(self._held, states, strict=True):
            array[...] = held
