# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What the user gives as model, loss function and optimizer: objects, not their classes."""

from typing import Any

import torch

from repro_mlir.frontends.torch.errors import CaptureError


def check_objects(model: Any, loss_fn: Any, optimizer: Any) -> None:
    """CaptureError for what is no model, loss function or optimizer."""
    require_model(model)
    require_loss(loss_fn)
    require_optimizer(optimizer)


def require_model(model: Any) -> None:
    """CaptureError for anything but a torch.nn.Module."""
    _require(model, torch.nn.Module, "torch.nn.Module", "the model", "...")


def require_optimizer(optimizer: Any) -> None:
    """CaptureError for anything but a torch.optim.Optimizer."""
    _require(optimizer, torch.optim.Optimizer, "torch.optim.Optimizer", "the optimizer", "model.parameters(), ...")


def require_loss(loss_fn: Any) -> None:
    """CaptureError for a class of modules: calling it would make a module, and no loss."""
    if isinstance(loss_fn, type) and issubclass(loss_fn, torch.nn.Module):
        name = loss_fn.__name__
        raise CaptureError(f"the loss function is the class {name}, expected an object: {name}()")


def _require(value: Any, kind: type, known: str, what: str, arguments: str) -> None:
    if isinstance(value, kind):
        return
    if isinstance(value, type):
        raise CaptureError(f"{what} is the class {value.__name__}, expected an object: {value.__name__}({arguments})")
    raise CaptureError(f"{what} is a {type(value).__name__}, expected an object of {known}")
