# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures evaluations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.errors import CaptureError, located
from repro_mlir.frontends.torch.base.hooks import checked_module_hooks, refuse_hooks
from repro_mlir.frontends.torch.base.model_modes import evaluation_mode
from repro_mlir.frontends.torch.capture.imported_steps import import_step
from repro_mlir.frontends.torch.capture.steps import DEFAULTS, StepTensors
from repro_mlir.frontends.torch.capture.steps_with_loss import StepWithLoss
from repro_mlir.frontends.torch.objects.captured_program import TorchBindings
from repro_mlir.frontends.torch.trace.random_sites import current_sites
from repro_mlir.program.imported import ImportedProgram


def capture_evaluation(
    model: torch.nn.Module,
    loss_fn: Callable[[Any, Any], torch.Tensor] | None,
    batch: Any,
    options: CaptureOptions = DEFAULTS,
) -> ImportedProgram[TorchBindings]:
    """Captures the loss of a model in evaluation mode, without gradients. The model keeps its mode.

    Args:
      model, loss_fn, batch: as for `capture_training`.
      options: only `autocast`, `attention_block`, `metrics`, and `returns` other than gradients are used.
    Returns:
      the program, whose outputs are as for `capture_training`; its state, the model's tensors, does not change.
    Raises:
      CaptureError: the model writes a buffer, draws random numbers, or cannot be captured for another reason.
    """
    with evaluation_mode(model):
        step = _Evaluation(model, loss_fn, batch, options)
        refuse_hooks({}, None)
        imported = import_step(step, options)
    if imported.random is not None:
        raise located(
            step.draws_at,
            "the model draws random numbers in evaluation mode, expected none: F.dropout(x, p, self.training), or "
            "nn.Dropout, draws only in training",
        )
    for name in sorted(imported.bindings.written):
        raise CaptureError(f"the model writes {name} in evaluation mode, expected no write to the state")
    return imported


class _Evaluation(StepWithLoss):
    draws_at: str | None = None
    """The origin of the first random numbers."""

    def run(self, tensors: StepTensors) -> list[torch.Tensor]:
        kept = [*tensors.parameters.values(), *tensors.buffers.values()]
        with torch.no_grad(), checked_module_hooks(self.model), self.model_with(tensors.parameters, tensors):
            loss, output = self.forward(tensors.batch)
            results = self.results_of(loss, output, tensors.batch, kept)
        self.draws_at = current_sites().origin
        return self.give(results)
