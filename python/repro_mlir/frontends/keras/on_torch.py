# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Implements `backends.Backend` for Keras on PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import torch
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask
from keras.src.backend.torch import random as keras_random

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.tensors.frameworks import tensor_module_of
from repro_mlir.frontends.keras.backends import Pure
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.capture.inference import capture_function
from repro_mlir.program.imported import ImportedProgram

SHARES_MEMORY = True


def import_function(
    function: Pure, state: Mapping[str, Any], inputs: Mapping[str, Any], seed: int | None
) -> ImportedProgram[Any]:
    """Captures a function; see `Backend.import_function`."""

    def traced(variables: dict[str, torch.Tensor], batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        # Copied, because on the backend torch, Keras writes to these tensors: optimizers to variables, losses to sample
        # weights.
        new, outputs = function(_copies(variables), _copies(batch))
        variables.update({name: value.detach() for name, value in new.items()})
        return outputs

    values = {name: value.detach() for name, value in state.items()}
    with _without_generators():
        return capture_function(traced, values, inputs, {}, CaptureOptions(seed=seed or 0))


def _copies(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in tensors.items()}


def read_inputs(program: ImportedProgram[Any], inputs: Mapping[str, Any]) -> list[np.ndarray]:
    """Converts inputs to arrays; see `Backend.read_inputs`."""
    return program.read_inputs(dict(inputs))


def gradients(function: Callable[[Sequence[Any]], tuple[Any, Any]], values: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Computes gradients; see `Backend.gradients`."""
    with torch.enable_grad():
        leaves = [value.detach().requires_grad_() for value in values]
        scalar, beside = function(leaves)
        found = torch.autograd.grad(scalar, leaves, allow_unused=True)
    return keras.tree.map_structure(_detached, beside), list(found)


def array_of(value: Any, kind: TensorType) -> np.ndarray:
    """Returns the value's memory as an array; see `Backend.array_of`."""
    if not value.is_contiguous():
        # Keras' orthogonal initializer creates non-contiguous values. Setting `data` keeps the tensor object.
        value.data = value.data.contiguous()
    return as_array(value.detach(), kind, "state")


def value_of(array: np.ndarray, kind: TensorType, like: Any) -> Any:
    """Copies an array to a value; see `Backend.value_of`."""
    framework = tensor_module_of(like)
    assert framework is not None
    return framework.to_tensor(array.copy(), kind)


def _detached(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    detached = value.detach()
    # Metrics read Keras' mask, an attribute of the tensor that detach() drops.
    set_keras_mask(detached, get_keras_mask(value))
    return detached


@contextlib.contextmanager
def _without_generators() -> Iterator[None]:
    """A context manager in which Keras' random functions do not use PyTorch's generators: a program has its own random
    numbers (R1)."""

    def advance(seed: Any) -> None:
        keras_random.draw_seed(seed)

    former = keras_random.torch_seed_generator
    keras_random.torch_seed_generator = advance
    try:
        yield
    finally:
        keras_random.torch_seed_generator = former
