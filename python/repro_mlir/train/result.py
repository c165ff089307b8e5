# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a step gives beside the loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

Returned = Literal["outputs", "gradient_norm", "gradients", "metrics"]


@dataclass(frozen=True, eq=False)
class StepResult:
    """What `Trainer.step` and `Trainer.evaluate` give where `returns` asks for more than the loss.

    The tensors are the caller's own: later steps leave them alone.

    Attributes:
      loss: the loss.
      outputs: what the model returned, in its structure (tuples, lists, mappings, dataclasses), with tensors that have
        no gradient; what is no tensor is as it was when the program was captured.
      gradient_norm: the 2-norm of all gradients together, before clipping, as `torch.nn.utils.clip_grad_norm_` gives
        it.
      gradients: by the name of the parameter what the optimizer takes: the gradient after clipping, of the shape and
        element type of the parameter. A parameter that has no gradient is left out.
      metrics: the value of each metric of the trainer by its name.

    What was not asked for is None.
    """

    loss: float
    outputs: Any = None
    gradient_norm: float | None = None
    gradients: dict[str, torch.Tensor] | None = None
    metrics: dict[str, float] | None = None


def result_of(loss: float, found: Mapping[str, Any]) -> StepResult:
    """A result with the values, tensors as the frontend gives them, that were asked for."""
    values = dict(found)
    if "gradient_norm" in values:
        values["gradient_norm"] = float(values["gradient_norm"])
    if "metrics" in values:
        values["metrics"] = {name: float(value) for name, value in values["metrics"].items()}
    return StepResult(loss, **values)
