# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The backend that Keras runs on, as the module here that knows it."""

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
"""State and inputs by name to the new state and the outputs by name.

The names begin with `variables.`, `batch.` and `output.`, as they do in the program.
"""


class Backend(Protocol):
    """What the module of a backend has. A value is a tensor of it."""

    SHARES_MEMORY: bool
    """Whether `array_of` gives the memory of the value."""

    def import_function(
        self, function: Pure, state: Mapping[str, Any], inputs: Mapping[str, Any], seed: int | None
    ) -> ImportedProgram[Any]:
        """The program of a function on these values. ReproError for what cannot be captured."""

    def read_inputs(self, program: ImportedProgram[Any], inputs: Mapping[str, Any]) -> list[np.ndarray]:
        """The inputs of a program by name as its arrays."""

    def gradients(
        self, function: Callable[[Sequence[Any]], tuple[Any, Any]], values: Sequence[Any]
    ) -> tuple[Any, list[Any]]:
        """What `function(values)` gives beside a scalar, and the gradient of the scalar for each value."""

    def array_of(self, value: Any, kind: TensorType) -> np.ndarray:
        """A value as an array of a program."""

    def value_of(self, array: np.ndarray, kind: TensorType, like: Any) -> Any:
        """A value of its own with the elements of an array, of the element type of another value."""


def backend() -> Backend:
    """The module for the backend of this process. ReproError for one that has none."""
    name = keras.config.backend()
    if name not in ("jax", "torch"):
        raise ReproError(
            f"Keras runs on the backend {name}, expected jax or torch: set KERAS_BACKEND before its import"
        )
    return cast(Backend, importlib.import_module(f"{__package__}.on_{name}"))
