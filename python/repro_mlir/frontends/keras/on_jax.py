# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Implements `backends.Backend` for Keras on JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.frontends.jax.programs import import_function as import_jax
from repro_mlir.frontends.keras.backends import Pure
from repro_mlir.program.imported import ImportedProgram

# `array_of` copies, because JAX's arrays are immutable.
SHARES_MEMORY = False


def import_function(
    function: Pure, state: Mapping[str, Any], inputs: Mapping[str, Any], seed: int | None
) -> ImportedProgram[Any]:
    """Captures a function; see `Backend.import_function`."""
    if seed is not None:
        raise ReproError(
            "seed is only for Keras's torch backend: on jax, the model's seed generators define its random numbers"
        )

    # The JAX frontend starts each tensor name with the name of the argument: `variables` or `batch`. The names in
    # `state` and `inputs` already have these prefixes, so they are removed here and added again for `function`.
    def step(variables: Mapping[str, Any], batch: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        new, output = function(_under("variables", variables), _under("batch", batch))
        return _inside(new), _inside(output)

    return import_jax(step, _inside(state), _inside(inputs), state=1)


def _under(root: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{root}.{name}": value for name, value in values.items()}


def _inside(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name.partition(".")[2]: value for name, value in values.items()}


def read_inputs(program: ImportedProgram[Any], inputs: Mapping[str, Any]) -> list[np.ndarray]:
    """Converts inputs to arrays; see `Backend.read_inputs`."""
    return program.read_inputs((_inside(inputs),))


def gradients(function: Callable[[Sequence[Any]], tuple[Any, Any]], values: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Computes gradients; see `Backend.gradients`."""
    found, beside = jax.grad(function, has_aux=True)(list(values))
    return beside, found


def array_of(value: Any, kind: TensorType) -> np.ndarray:
    """Copies a value to an array; see `Backend.array_of`."""
    return np.array(value).view(kind.dtype)


def value_of(array: np.ndarray, kind: TensorType, like: Any) -> Any:
    """Copies an array to a value; see `Backend.value_of`."""
    return jax.numpy.array(array.view(like.dtype))
