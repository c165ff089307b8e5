# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The results that a step can have in addition to the loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class StepResult:
    """The result of `Trainer.step` and `Trainer.evaluate` if `returns` requests more than the loss.

    The caller owns the tensors: later steps do not change them. Attributes that were not requested are None.

    Attributes:
      loss: the loss.
      outputs: the outputs of the model in their structure (tuples, lists, mappings, dataclasses), as tensors without
        gradients; values that are not tensors are those that the model returned when the program was captured.
      gradient_norm: the 2-norm of all gradients together, before clipping, as `torch.nn.utils.clip_grad_norm_` returns
        it.
      gradients: the gradients that the optimizer gets, after clipping, by name of the parameter; each has the shape and
        element type of its parameter. Parameters without a gradient are left out.
      metrics: the values of the trainer's metrics by name.
    """

    loss: float
    outputs: Any = None
    gradient_norm: float | None = None
    gradients: dict[str, torch.Tensor] | None = None
    metrics: dict[str, float] | None = None


def result_of(loss: float, found: Mapping[str, Any]) -> StepResult:
    """Returns a `StepResult`; `found` has the requested values by name, as tensors of the frontend."""
    values = dict(found)
    if "gradient_norm" in values:
        values["gradient_norm"] = float(values["gradient_norm"])
    if "metrics" in values:
        values["metrics"] = {name: float(value) for name, value in values["metrics"].items()}
    return StepResult(loss, **values)
