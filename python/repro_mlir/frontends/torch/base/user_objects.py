# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks of the objects that the user passes as model, loss function and optimizer."""

import inspect
import itertools
from typing import Any

import torch

from repro_mlir.base.printing import kind_of
from repro_mlir.frontends.torch.base.errors import CaptureError


def check_objects(model: Any, loss_fn: Any, optimizer: Any) -> None:
    """Raises CaptureError unless the arguments are a model, a loss function and a supported optimizer."""
    require_model(model)
    require_loss(loss_fn)
    require_optimizer(optimizer)
    check_class(optimizer)


def check_class(optimizer: torch.optim.Optimizer) -> None:
    """Raises CaptureError for an optimizer whose `step` no program can represent."""
    name = f"optimizer {type(optimizer).__name__}"
    step = inspect.signature(type(optimizer).step)
    for parameter in [*step.parameters.values()][1:]:
        if parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise CaptureError(
                f"{name} is not supported: its step needs the argument {parameter.name}, but a compiled step is one "
                "forward and one backward pass; compile the loss with torch.compile(loss, "
                "backend=repro_mlir.backend()) and call the optimizer in a loop"
            )
    for key, value in vars(optimizer).items():
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else [value]
        for each in inner:
            if isinstance(each, torch.optim.Optimizer):
                raise CaptureError(
                    f"{name} is not supported: its attribute {key} is or contains another optimizer; pass that "
                    f"{type(each).__name__} to Trainer and do the rest between steps, or write one class whose step "
                    "does both"
                )
    if "_optimizer_step_pre_hooks" not in vars(optimizer):
        raise CaptureError(f"{name} is not initialized: expected its __init__ to call Optimizer.__init__")


def unwrapped(optimizer: Any) -> Any:
    """Returns the optimizer inside of accelerate's AcceleratedOptimizer; returns any other optimizer unchanged. Raises
    CaptureError if accelerate scales the loss."""
    is_prepared = type(optimizer).__name__ == "AcceleratedOptimizer"
    if not is_prepared or type(optimizer).__module__.split(".")[0] != "accelerate":
        return optimizer
    if optimizer.scaler is not None:
        raise CaptureError("accelerate scales the loss: expected mixed_precision='no', and loss_scale= in Trainer")
    return optimizer.optimizer


def require_model(model: Any) -> None:
    """Raises CaptureError unless `model` is a torch.nn.Module whose parameters and buffers have shapes."""
    _require(model, torch.nn.Module, "torch.nn.Module", "the model", "...")
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        if torch.nn.parameter.is_lazy(tensor):
            raise CaptureError(
                f"{name} of the model has no shape yet: call the model once, as in model(inputs), so that its lazy "
                "layers create their parameters, and then create the optimizer"
            )


def require_optimizer(optimizer: Any) -> None:
    """Raises CaptureError unless `optimizer` is a torch.optim.Optimizer."""
    _require(optimizer, torch.optim.Optimizer, "torch.optim.Optimizer", "the optimizer", "model.parameters(), ...")


def require_loss(loss_fn: Any) -> None:
    """Raises CaptureError if the loss function is a class of modules, not a module, because a call would return a new
    module, or if it cannot be called with the model's output and a target."""
    if isinstance(loss_fn, type) and issubclass(loss_fn, torch.nn.Module):
        name = loss_fn.__name__
        raise CaptureError(f"the loss function is the class {name}, expected an instance: {name}()")
    if loss_fn is None or isinstance(loss_fn, torch.nn.Module):
        return
    try:
        signature = inspect.signature(loss_fn)
    except (TypeError, ValueError):
        # A function in C has no signature, and an object that is not callable is refused where it is called.
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise CaptureError(
            f"the loss function has the parameters {signature}, expected (output, target): call the model outside of "
            "it, or pass None as the loss function and return the loss from the model"
        ) from None


def _require(value: Any, kind: type, known: str, what: str, arguments: str) -> None:
    if isinstance(value, kind):
        return
    if isinstance(value, type):
        raise CaptureError(f"{what} is the class {value.__name__}, expected an instance: {value.__name__}({arguments})")
    raise CaptureError(f"{what} is {kind_of(value)}, expected a {known}")
