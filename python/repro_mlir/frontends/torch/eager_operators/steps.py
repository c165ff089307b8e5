# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs a step of a model in PyTorch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from repro_mlir.frontends.torch.base.batch_leaves import flatten
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.source_lines import phase
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.base.user_objects import require_model
from repro_mlir.frontends.torch.capture.steps import called
from repro_mlir.frontends.torch.capture.steps_with_loss import loss_of


def training_step(
    model: torch.nn.Module,
    loss_fn: Callable[[Any, Any], torch.Tensor] | None,
    optimizer: torch.optim.Optimizer,
    batch: Any,
    options: CaptureOptions,
    *,
    updates: bool = True,
) -> Callable[[], None]:
    """Returns a function that trains one step in PyTorch.

    Args:
      model, loss_fn, optimizer, batch: as for `repro_mlir.capture`.
      options: only `clip_norm` and `autocast` are used.
      updates: whether the step calls the optimizer; else it only computes gradients.
    """
    require_model(model)
    batch = _with_tensors(batch)

    def gradients() -> Any:
        optimizer.zero_grad()
        device = next((each.device.type for each in model.parameters()), "cpu")
        with torch.autocast(device, dtype=options.autocast, enabled=options.autocast is not None):
            loss, _ = loss_of(model, loss_fn, batch)
        with phase("backward pass"):
            loss.backward()
        if options.clip_norm is not None:
            with phase("gradient clipping"):
                torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip_norm)
        return loss

    def run() -> None:
        with torch.enable_grad():
            needs_closure = any(
                each.default is each.empty for each in inspect.signature(optimizer.step).parameters.values()
            )
            if updates and needs_closure:
                optimizer.step(gradients)
                return
            gradients()
            if not updates:
                return
            with phase("optimizer"):
                optimizer.step()

    return run


def inference(model: torch.nn.Module, inputs: Any) -> Callable[[], None]:
    """Returns a function that calls a model without gradients."""
    require_model(model)
    inputs = _with_tensors(inputs)

    def run() -> None:
        with torch.no_grad():
            called(model, inputs)

    return run


def _with_tensors(batch: Any) -> Any:
    """Returns the arguments of a model, with tensors in place of NumPy arrays."""
    leaves, spec = flatten(batch)
    return pytree.tree_unflatten(leaves, spec)
