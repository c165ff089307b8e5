# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The steps of a compiled Keras model as functions of its variables, the same on each backend."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import keras
import numpy as np

from .errors import CaptureError
from .scope import Scope, derived_tensors

Step = Callable[..., Any]
"""Takes a scope, `x`, `y` and `sample_weight`, and gives the logs."""


def state_of(model: keras.Model, *, training: bool) -> list[list[Any]]:
    """The variables of a step: trainable ones, others, those of the optimizer in training, those of the metrics."""
    optimizer = [model.optimizer.variables] if training else []
    return [model.trainable_variables, model.non_trainable_variables, *optimizer, model.metrics_variables]


_Helper = (
    keras.optimizers.Optimizer,
    keras.optimizers.schedules.LearningRateSchedule,
    keras.losses.Loss,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
)


def settings_of(model: keras.Model, *, training: bool) -> dict[str, Any]:
    """What a step reads that is no variable, by the name of its owner and its own, as values that compare.

    These are the public attributes of layers, metrics and the optimizer that are numbers, strings, functions or tuples
    of them, and those of their regularizers, constraints, losses and schedules.
    """
    layers = {f"{number}: {layer.name}": layer for number, layer in enumerate(model._flatten_layers())}
    metrics = {f"metrics {number}: {metric.name}": metric for number, metric in enumerate(model.metrics)}
    optimizer = {"optimizer": model.optimizer} if training else {}
    return {
        f"{name}.{attribute}": value
        for name, owner in {**layers, **metrics, **optimizer}.items()
        for attribute, value in _settings(owner)
    }


def _settings(owner: Any) -> list[tuple[str, Any]]:
    found = []
    for name, value in vars(owner).items():
        if isinstance(value, _Helper):
            found += [(name, type(value)), *((f"{name}.{inner}", each) for inner, each in _settings(value))]
        elif not name.startswith("_") and _is_setting(value):
            # 1, 1.0 and True are equal, as are 0.0 and -0.0.
            found.append((name, value if callable(value) else repr(value)))
    return found


def _is_setting(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_setting, value))
    return isinstance(value, (bool, int, float, complex, str, type(None), np.generic, FunctionType))


def training_step(model: keras.Model) -> Step:
    """Forward, loss, gradients, update and metrics, as `train_step` of Keras.

    Raises:
      CaptureError: a model that defines its own step.
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
    """Forward, loss and metrics, as `test_step` of Keras. Raises as `training_step`."""
    _require_own_step(model, "test_step")

    def step(scope: Scope, x: Any, y: Any, sample_weight: Any) -> Any:
        y_pred, loss = _forward(model, x, y, sample_weight, training=False)
        return _logs(model, loss, x, y, y_pred, sample_weight)

    return step


def _require_own_step(model: keras.Model, name: str) -> None:
    if getattr(type(model), name) is not getattr(keras.Model, name):
        raise CaptureError(
            f"{type(model).__name__}.{name} cannot be honoured: a step is captured from the model, its loss, optimizer "
            "and metrics; override compute_loss or compute_metrics"
        )


def _forward(model: keras.Model, x: Any, y: Any, sample_weight: Any, *, training: bool) -> tuple[Any, Any]:
    with derived_tensors(model):
        y_pred = model(x, training=training) if model._call_has_training_arg else model(x)
    return y_pred, model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)


def _logs(model: keras.Model, loss: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
    size = next(leaf for leaf in keras.tree.flatten(x) if leaf is not None).shape[0]
    model._loss_tracker.update_state(loss, sample_weight=size)
    return model.compute_metrics(x, y, y_pred, sample_weight)
