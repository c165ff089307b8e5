# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Replaces the values of Keras variables during a trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras

from repro_mlir.frontends.keras.backends import backend
from repro_mlir.frontends.keras.errors import CaptureError


class Scope(keras.StatelessScope):
    """A scope in which variables have traced values.

    Reading a variable without a traced value is an error, because its current value would become a constant.

    Args:
      values: pairs of a variable and its value.
    """

    def __init__(self, values: Iterable[tuple[Any, Any]] = ()) -> None:
        super().__init__(state_mapping=list(values), collect_losses=True, initialize_variables=False)

    def get_current_value(self, variable: Any) -> Any:
        """Returns the traced value of a variable. Raises CaptureError if the variable is not part of the state."""
        if id(variable) not in self.state_mapping:
            raise CaptureError(
                f"the step reads the variable {variable.path}, which is not part of its state: make the variable an "
                "attribute of the model or of one of its layers, so that Keras tracks it"
            )
        return self.state_mapping[id(variable)]

    def add_update(self, update: tuple[Any, Any]) -> None:
        """Records an update. Raises CaptureError if the variable is not part of the state."""
        # Called only for its check.
        self.get_current_value(update[0])
        super().add_update(update)

    def gradients(self, function: Callable[[], tuple[Any, Any]], variables: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Calls `function()`, which returns a scalar and auxiliary results.

        Returns the auxiliary results, and the gradients of the scalar with respect to `variables`. Other variables that
        the function writes keep their new values.
        """
        keys = [id(variable) for variable in variables]
        others = {key: value for key, value in self.state_mapping.items() if key not in keys}

        def run(values: Sequence[Any]) -> tuple[Any, Any]:
            with Scope() as inner:
                inner.state_mapping = {**others, **dict(zip(keys, values, strict=True))}
                scalar, beside = function()
                return scalar, (beside, {key: inner.state_mapping[key] for key in others})

        (beside, changed), found = backend().gradients(run, [self.state_mapping[key] for key in keys])
        self.state_mapping.update(changed)
        return beside, found


@contextlib.contextmanager
def derived_tensors(layer: keras.Layer) -> Iterator[None]:
    """A context manager that recomputes the tensors that a layer and its sublayers derive from variables, and restores
    the old tensors at the end.

    The layer Normalization derives mean and variance from the variables that `adapt` has computed.
    """
    found = [each for each in layer._flatten_layers() if isinstance(each, keras.layers.Normalization) and each.built]
    former = [(each.mean, each.variance) for each in found]
    try:
        for each in found:
            each.finalize_state()
        yield
    finally:
        for each, (mean, variance) in zip(found, former, strict=True):
            each.mean, each.variance = mean, variance
