# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The steps of a compiled Keras model as functions of its variables, independent of the backend."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import keras
import numpy as np

from repro_mlir.frontends.keras.errors import CaptureError
from repro_mlir.frontends.keras.scope import Scope, derived_tensors

Step = Callable[..., Any]
"""A function of a scope, `x`, `y` and `sample_weight` that returns Keras' logs: a dict of the loss and the metrics."""


def state_of(model: keras.Model, *, training: bool) -> list[list[Any]]:
    """Returns the variables of a step as a list of groups: the trainable ones, the non-trainable ones, those of the
    optimizer (only if `training`), and those of the metrics.
    """
    optimizer = [model.optimizer.variables] if training else []
    return [model.trainable_variables, model.non_trainable_variables, *optimizer, model.metrics_variables]


_Helper = (
    keras.optimizers.Optimizer,
    keras.optimizers.schedules.LearningRateSchedule,
    keras.losses.Loss,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
)
_OF_THE_LOOP = {"built", "compiled", "optimizer", "stop_evaluating", "stop_predicting", "stop_training"}
"""Attributes of a model that Keras' training loop writes."""


def settings_of(model: keras.Model, *, training: bool) -> dict[str, Any]:
    """Returns all non-variable settings that a step reads, keyed by owner and attribute, as comparable values.

    The settings are those public attributes of layers, metrics, the optimizer and their regularizers, constraints,
    losses and schedules that are numbers, strings, functions or tuples of these, and whether each layer is trainable.
    """
    layers = {f"{number}: {layer.name}": layer for number, layer in enumerate(model._flatten_layers())}
    metrics = {f"metrics {number}: {metric.name}": metric for number, metric in enumerate(model.metrics)}
    optimizer = {"optimizer": model.optimizer} if training else {}
    found: dict[str, Any] = {f"{name}.trainable": layer.trainable for name, layer in layers.items()}
    for name, owner in {**layers, **metrics, **optimizer}.items():
        left_out = _OF_THE_LOOP if isinstance(owner, keras.Model) else set()
        for attribute, value in vars(owner).items():
            if attribute not in left_out:
                _add(found, f"{name}.{attribute}", value, attribute.startswith("_"), {id(owner)})
    return found


def _add(found: dict[str, Any], name: str, value: Any, is_private: bool, within: set[int]) -> None:
    """Adds a value to `found` if it is a setting, and the attributes of a helper object such as a regularizer or loss.
    A private value is added only if it is a helper object. `within` has the ids of the enclosing helper objects.
    """
    if isinstance(value, _Helper):
        found[name] = type(value)
        if id(value) not in within:
            for inner, each in vars(value).items():
                _add(found, f"{name}.{inner}", each, inner.startswith("_"), {*within, id(value)})
    elif isinstance(value, (list, dict)) and not is_private:
        # A model with several outputs has a list or dict of losses.
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in pairs:
            if isinstance(each, _Helper):
                _add(found, f"{name}[{key!r}]", each, False, within)
    elif not is_private and _is_setting(value):
        found[name] = _comparable(value)


def _is_setting(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_setting, value))
    return isinstance(value, (bool, int, float, complex, str, type(None), np.generic, FunctionType))


def _comparable(value: Any) -> Any:
    """Returns a key for a value. Unlike in Python, 1, 1.0 and True have different keys, as have 0.0 and -0.0."""
    if isinstance(value, tuple):
        return tuple(map(_comparable, value))
    return value if isinstance(value, FunctionType) else repr(value)


def training_step(model: keras.Model) -> Step:
    """Returns a step that computes forward pass, loss, gradients, update and metrics, like Keras' `train_step`.

    Raises:
      CaptureError: the model overrides `train_step`.
    """
    _require_own_step(model, "train_step")

    def step(scope: Scope, x: Any, y: Any, sample_weight: Any) -> Any:
        def forward() -> tuple[Any, Any]:
            y_pred, loss = _forward(model, x, y, sample_weight, training=True)
            return model.optimizer.scale_loss(loss), (y_pred, loss)

        trained = model.trainable_variables
        if not trained:
            raise CaptureError("the model has no trainable variable")
        (y_pred, loss), gradients = scope.gradients(forward, trained)
        model.optimizer.apply(gradients, trained)
        return _logs(model, loss, x, y, y_pred, sample_weight)

    return step


def evaluation_step(model: keras.Model) -> Step:
    """Returns a step that computes forward pass, loss and metrics, like Keras' `test_step`. Raises CaptureError if the
    model overrides `test_step`.
    """
    _require_own_step(model, "test_step")

    def step(scope: Scope, x: Any, y: Any, sample_weight: Any) -> Any:
        y_pred, loss = _forward(model, x, y, sample_weight, training=False)
        return _logs(model, loss, x, y, y_pred, sample_weight)

    return step


def _require_own_step(model: keras.Model, name: str) -> None:
    if getattr(type(model), name) is not getattr(keras.Model, name):
        raise CaptureError(
            f"{type(model).__name__} overrides {name}, which a compiled step does not call: override compute_loss or "
            "compute_metrics instead"
        )


def _forward(model: keras.Model, x: Any, y: Any, sample_weight: Any, *, training: bool) -> tuple[Any, Any]:
    with derived_tensors(model):
        y_pred = model(x, training=training) if model._call_has_training_arg else model(x)
    return y_pred, model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)


def _logs(model: keras.Model, loss: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
    size = next(leaf for leaf in keras.tree.flatten(x) if leaf is not None).shape[0]
    model._loss_tracker.update_state(loss, sample_weight=size)
    return model.compute_metrics(x, y, y_pred, sample_weight)
