# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Selects the module that supports the backend of Keras in this process."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import keras
import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program.imported import ImportedProgram

Pure = Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]]
"""A function from the state and the inputs to the new state and the outputs; all four are dictionaries keyed by name.

The names start with `variables.`, `batch.` and `output.`, as in the program.
"""


class Backend(Protocol):
    """The interface of a backend module. A value is a tensor of the backend."""

    SHARES_MEMORY: bool
    """Whether `array_of` returns an array that shares the value's memory."""

    def import_function(
        self, function: Pure, state: Mapping[str, Any], inputs: Mapping[str, Any], seed: int | None
    ) -> ImportedProgram[Any]:
        """Captures `function`; `state` holds its initial state and `inputs` holds examples. Raises ReproError for a
        function that cannot be captured.
        """

    def read_inputs(self, program: ImportedProgram[Any], inputs: Mapping[str, Any]) -> list[np.ndarray]:
        """Converts inputs, keyed by name, to arrays in the order of the program's inputs."""

    def gradients(
        self, function: Callable[[Sequence[Any]], tuple[Any, Any]], values: Sequence[Any]
    ) -> tuple[Any, list[Any]]:
        """Calls `function(values)`, which returns a scalar and auxiliary results.

        Returns the auxiliary results, and the gradients of the scalar with respect to the values.
        """

    def array_of(self, value: Any, kind: TensorType) -> np.ndarray:
        """Returns a value as a NumPy array of the type `kind`."""

    def value_of(self, array: np.ndarray, kind: TensorType, like: Any) -> Any:
        """Copies an array to a new value with the element type of `like`."""


def backend() -> Backend:
    """Returns the module that implements `Backend` for the Keras backend of this process. Raises ReproError for an
    unsupported backend.
    """
    name = keras.config.backend()
    if name not in ("jax", "torch"):
        raise ReproError(
            f"Keras runs on the backend {name}, expected jax or torch: set KERAS_BACKEND before importing keras"
        )
    return cast(Backend, importlib.import_module(f"{__package__}.on_{name}"))
