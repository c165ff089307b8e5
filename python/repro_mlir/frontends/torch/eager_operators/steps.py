# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs a step of a model in PyTorch, and restores the user's objects."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
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


@contextlib.contextmanager
def restoring(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Iterator[None]:
    """A context manager after which parameters, buffers, gradients, the optimizer's state and PyTorch's random state
    are those from before the block."""
    parameters = [*model.parameters()]
    gradients = [each.grad for each in parameters]
    # A step must not add to the gradients of the user.
    for each in parameters:
        each.grad = None
    slots = {} if optimizer is None else {key: {**value} for key, value in optimizer.state.items()}
    in_slots = [leaf for leaf in pytree.tree_leaves([*slots.values()]) if isinstance(leaf, torch.Tensor)]
    held = [*parameters, *model.buffers(), *in_slots]
    copies = [each.detach().clone() for each in held]
    contents = [each.data for each in held]
    versions = [each._version for each in held]
    # A module may assign another tensor to a name.
    named = [(names, {**names}) for each in model.modules() for names in (each._parameters, each._buffers)]
    random_state = torch.get_rng_state()
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, content, copied, version in zip(held, contents, copies, versions, strict=True):
                # Sparse tensors and those of other classes have no bits of their own.
                is_plain = type(content) is torch.Tensor and content.layout is torch.strided
                if is_plain and not tensor.is_set_to(content):
                    tensor.data = content
                if tensor._version != version or (is_plain and not _has_bits(tensor, copied)):
                    tensor.copy_(copied)
        for names, tensors in named:
            names.clear()
            names.update(tensors)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        if optimizer is not None:
            optimizer.state.clear()
            optimizer.state.update(slots)
        torch.set_rng_state(random_state)


def _has_bits(tensor: torch.Tensor, copied: torch.Tensor) -> bool:
    """Returns whether a tensor has the bits of its copy. Writes to `tensor.data` leave the version as it is."""
    values = [each.detach().resolve_conj().resolve_neg().contiguous().reshape(-1) for each in (tensor, copied)]
    return torch.equal(*(each.view(torch.uint8) for each in values))
