# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The steps of a compiled Keras model as functions of its variables, the same on each backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from .errors import CaptureError
from .scope import Scope

Step = Callable[..., Any]
"""Takes a scope, `x`, `y` and `sample_weight`, and gives the logs."""


def state_of(model: keras.Model, *, training: bool) -> list[list[Any]]:
    """The variables of a step: trainable ones, others, those of the optimizer in training, those of the metrics."""
    optimizer = [model.optimizer.variables] if training else []
    return [model.trainable_variables, model.non_trainable_variables, *optimizer, model.metrics_variables]


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
    y_pred = model(x, training=training) if model._call_has_training_arg else model(x)
    return y_pred, model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)


def _logs(model: keras.Model, loss: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
    size = next(leaf for leaf in keras.tree.flatten(x) if leaf is not None).shape[0]
    model._loss_tracker.update_state(loss, sample_weight=size)
    return model.compute_metrics(x, y, y_pred, sample_weight)
